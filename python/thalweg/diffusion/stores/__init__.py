"""Access to the stores that hold inputs and take outputs: reads, writes, retries and timeouts. SPDX-License-Identifier: Apache-2.0"""
