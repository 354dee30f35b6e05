"""Data diffusion: analyses run where their input already lies. SPDX-License-Identifier: Apache-2.0"""
