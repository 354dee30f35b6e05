"""The worker side of a run: the agent, and the slots that execute tasks. SPDX-License-Identifier: Apache-2.0"""
