//! A request's grant from its beginning: so many bytes pass without another grant, and count as outstanding at the
//! server until it has replied. Dropping it gives the depth back.

use crate::upstream_scheduler::Grant;

pub(crate) struct RequestGrant {
    /// None: it counts no longer, but was paid, so the bytes may pass.
    grant: Option<Grant>,
    bytes: u64,
    moved: u64,
}

impl RequestGrant {
    pub fn new(grant: Grant, bytes: u64) -> RequestGrant {
        RequestGrant { grant: Some(grant), bytes, moved: 0 }
    }

    /// These bytes may pass, and are paid for otherwise.
    pub fn without_depth(bytes: u64) -> RequestGrant {
        RequestGrant { grant: None, bytes, moved: 0 }
    }

    /// An object's last slice, which has been moved already.
    pub fn spent(grant: Grant, bytes: u64) -> RequestGrant {
        grant.awaits_reply();
        RequestGrant { grant: Some(grant), bytes, moved: bytes }
    }

    pub fn counts(&self) -> bool {
        self.grant.is_some()
    }

    /// Returns the bytes that may still pass.
    pub fn left(&self) -> u64 {
        self.bytes - self.moved
    }

    pub fn moved(&mut self, bytes: u64) {
        self.moved += bytes.min(self.left());
        self.progress();
    }

    pub fn progress(&self) {
        self.grant.iter().for_each(Grant::progress);
    }

    /// Notes that the server has served it.
    pub fn complete(self) {
        self.grant.into_iter().for_each(|grant| grant.complete_request(self.moved));
    }

    /// Releases the depth for others; passed bytes are paid, and the rest asks again.
    pub fn release(self) {
        self.grant.into_iter().for_each(|grant| grant.give_back(self.moved));
    }

    /// Others shall have the depth; all is paid and may pass: the server reads something else first, and must find this
    /// whole when it comes to it.
    pub fn forgo_depth(&mut self) {
        self.grant.take().into_iter().for_each(|grant| grant.give_back(self.bytes));
    }

    /// Returns the grant and its number of bytes, once all of them have passed.
    pub fn into_grant(self) -> Option<(Grant, u64)> {
        Some((self.grant?, self.moved))
    }
}
