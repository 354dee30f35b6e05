"""The back-end on a Dask cluster: client, scheduler plugin and worker side. SPDX-License-Identifier: Apache-2.0"""
