"""The disk cache of a worker. SPDX-License-Identifier: Apache-2.0"""
