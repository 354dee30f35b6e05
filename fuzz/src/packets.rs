//! Packets that gates exchange: as they come, and with a tag made right as who knows the key would make it.

use std::time::Duration;

use gate::exchange::Exchange;
use gate::exchange::packet::{GateId, Key, MAX_BYTES, Packet};

pub fn exchange(bytes: &[u8]) {
    let key = Key::from_secret("golden");
    let _ = Packet::decode(bytes, Some(&key));
    let Ok(packet) = Packet::decode(bytes, None) else { return };
    let again = packet.encode(None);
    assert!(again.len() == bytes.len() && again.len() <= MAX_BYTES);
    let tagged = packet.encode(Some(&key));
    assert_eq!(Packet::decode(&tagged, Some(&key)).as_ref(), Ok(&packet));

    // Twice: doubled packets say nothing the second time.
    let mut gate = Exchange::new(GateId(0), Some(key), 1);
    gate.know(&["climate".into(), "genome".into()]);
    let first = gate.hear(&tagged, Duration::ZERO);
    assert!(first.is_ok_and(|actions| actions.len() <= packet.entries.len()));
    assert_eq!(gate.hear(&tagged, Duration::from_millis(1)), Ok(Vec::new()));
}
