"""Transfers of cached files between the workers of a run. SPDX-License-Identifier: Apache-2.0"""
