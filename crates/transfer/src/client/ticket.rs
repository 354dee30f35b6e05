//! The ticket: what one process learns at open, for all that will use the file.

use catalog::PathSession;
use format::{ErrorCode, HandleKey, Reader, Writer};

use crate::message::Reply;
use crate::{Error, Result};

/// The size every buffer for a ticket should have (bytes). Longer tickets need paths of thousands of bytes.
pub const TICKET_BYTES: usize = 4096;

#[derive(Clone, Debug, PartialEq)]
pub struct Ticket {
    /// The file's name as the user gave it, for messages.
    pub name: Vec<u8>,
    pub flags: u32,
    /// Its owner may use the file as this handle, and take the handle off.
    pub key: HandleKey,
    pub session: PathSession,
    /// Size of the head when the session was joined (bytes).
    pub size: u64,
    pub segment_bytes: u32,
}

impl Ticket {
    /// Builds the ticket from a node's answer; none from an answer by which no byte could find its place.
    pub(super) fn of(name: Vec<u8>, flags: u32, key: HandleKey, answer: Reply) -> Option<Self> {
        match answer {
            Reply::Opened { session, size, segment_bytes }
                if !session.nodes.is_empty() && session.stripe_bytes > 0 && segment_bytes > 0 =>
            {
                Some(Ticket { name, flags, key, session, size, segment_bytes })
            }
            _ => None,
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let opened =
            Reply::Opened { session: self.session.clone(), size: self.size, segment_bytes: self.segment_bytes };
        let mut to = Writer::new();
        to.u16(opened.kind()).blob(&opened.encode()).blob(&self.name).u32(self.flags).put(&self.key.0);
        to.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let refuse = |source: format::Error| {
            Error::Refused(ErrorCode::CallRefused, format!("this is no ticket of thalweg_open: {source}"))
        };
        let mut from = Reader::new("ticket", bytes);
        let mut parts = || Ok((from.u16()?, from.blob()?, from.blob()?.to_vec(), from.u32()?, from.array()?));
        let (kind, body, name, flags, key) = parts().map_err(refuse)?;
        let opened = Reply::decode(kind, body).map_err(refuse)?;
        Ticket::of(name, flags, HandleKey(key), opened)
            .ok_or_else(|| Error::Refused(ErrorCode::CallRefused, "this is no ticket of thalweg_open".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        let session = PathSession {
            id: format::SessionId(9),
            path: format::StorePath::new(b"a/b").unwrap(),
            nodes: vec!["h:1".into()],
            stripe_bytes: 1 << 20,
            job: "j".into(),
            opened_ns: 5,
            handles: 1,
            interrupted: false,
        };
        let key = HandleKey([7; HandleKey::BYTES]);
        Ticket { name: b"/a/b".to_vec(), flags: 3, key, session, size: 77, segment_bytes: 8192 }
    }

    #[test]
    fn tickets_come_back_and_damage_is_refused() {
        let ticket = ticket();
        let bytes = ticket.encode();
        assert_eq!(Ticket::decode(&bytes).unwrap(), ticket);
        (0..bytes.len()).for_each(|end| assert!(Ticket::decode(&bytes[..end]).is_err()));
    }

    #[test]
    fn sessions_without_nodes_or_with_empty_stripes_or_segments_are_none() {
        let spoilt: [fn(&mut Ticket); 3] = [
            |ticket| ticket.session.nodes.clear(),
            |ticket| ticket.session.stripe_bytes = 0,
            |ticket| ticket.segment_bytes = 0,
        ];
        for spoil in spoilt {
            let mut bad = ticket();
            spoil(&mut bad);
            assert!(Ticket::decode(&bad.encode()).is_err(), "{bad:?}");
        }
    }
}
