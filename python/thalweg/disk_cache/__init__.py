"""The disk cache under `thalwegcache` and the workers of `thalweg.diffusion`. SPDX-License-Identifier: Apache-2.0"""
