"""Data diffusion beside Dask and Ray, on a throttled store; see bench/README.md.

SPDX-License-Identifier: Apache-2.0
"""
