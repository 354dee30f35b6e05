"""Records of a run: events, statistics, live page, progress bar and report. SPDX-License-Identifier: Apache-2.0"""
