//! Addresses on the command line that are no store's: `HOST:PORT`.

/// For clap: a text that is no address on any network is wrong usage.
pub fn parse(written: &str) -> Result<String, String> {
    match written.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(written.to_owned()),
        _ => Err("HOST:PORT is needed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for written in ["127.0.0.1:0", "[::1]:7420", "node-3:7420"] {
            assert_eq!(parse(written).as_deref(), Ok(written));
        }
        for written in ["nowhere", ":7420", "127.0.0.1:99999", "h:", "h:http", ""] {
            assert!(parse(written).is_err(), "{written}");
        }
    }
}
