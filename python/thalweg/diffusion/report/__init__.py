"""What a run records of itself: events, statistics, live page, progress bar and report. SPDX-License-Identifier: Apache-2.0"""
