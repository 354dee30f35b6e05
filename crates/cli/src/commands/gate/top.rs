//! `thalweg gate top`: the target and achieved shares of a gate's applications, their rates and their waits.
//!
//! It reads `/status.json` from the gate's metrics address. On a terminal the table is drawn again each second; into a
//! pipe it is written each second, one after the other.

use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::Context;
use format::ErrorCode;
use serde_json::Value;

use crate::error_code::{self, Coded, fail};
use crate::failure::explained;
use crate::host_port;
use crate::output::Output;
use crate::shown;

/// Show what applications get at a gate, each second
#[derive(clap::Args)]
#[command(after_help = "Example: thalweg gate top 127.0.0.1:9090")]
pub struct Arguments {
    /// The gate's metrics address, as its configuration has it: HOST:PORT
    #[arg(value_parser = host_port::parse)]
    address: String,
    /// Show it once and end
    #[arg(long)]
    once: bool,
}

const PERIOD: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(5);
/// A status is some hundred bytes an application.
const MAX_BYTES: u64 = 64 << 20;
const CLEAR: &str = "\x1b[H\x1b[2J";
/// Lines besides applications': the head, and those below.
const OTHER_LINES: usize = 5;

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    let is_drawn = !arguments.once && !output.is_json() && std::io::stdout().is_terminal();
    // A gate that was never there is a mistake; one that is gone for a moment may come back.
    let mut status = fetch(&arguments.address);
    if status.is_err() || arguments.once {
        return show(&status?, usize::MAX, output);
    }
    loop {
        if is_drawn {
            output.content(CLEAR.as_bytes())?;
        }
        match &status {
            Ok(status) => show(status, if is_drawn { rows_that_fit() } else { usize::MAX }, output)?,
            Err(error) => output.note(error_code::of(error).after(explained(error))),
        }
        output.finish()?;
        std::thread::sleep(PERIOD);
        status = fetch(&arguments.address);
    }
}

fn rows_that_fit() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.map_or(usize::MAX, |size| usize::from(size.ws_row).saturating_sub(OTHER_LINES))
}

fn show(status: &Value, max_rows: usize, output: &Output) -> anyhow::Result<()> {
    output.document(status)?;
    if output.is_json() {
        return Ok(());
    }
    table(status, max_rows).into_iter().try_for_each(|line| output.line(line))
}

fn table(status: &Value, max_rows: usize) -> Vec<String> {
    let none = Vec::new();
    let applications = status["applications"].as_array().unwrap_or(&none);
    let is_busy =
        |application: &&Value| number(application, "achieved") > 0.0 || number(application, "outstanding") > 0.0;
    let has_room = applications.len() <= max_rows;
    let rows: Vec<&Value> = match has_room {
        true => applications.iter().collect(),
        false => applications.iter().filter(is_busy).take(max_rows).collect(),
    };
    let width = rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0).clamp(11, 32);
    let mut lines = vec![format!(
        "{:width$} {:>6} {:>8} {:>10} {:>10} {:>10} {:>7} {:>7} {:>10} {:>9} {:>9} {:>6}",
        "application",
        "weight",
        "wanted %",
        "achieved %",
        "MB/s read",
        "written",
        "queued",
        "served",
        "unanswered",
        "p50 ms",
        "p99 ms",
        "late"
    )];
    lines.extend(rows.iter().map(|row| line(row, width)));
    if applications.len() > rows.len() {
        lines.push(format!("({} more)", applications.len() - rows.len()));
    }
    lines.push(below(status));
    lines
}

fn line(row: &Value, width: usize) -> String {
    format!(
        "{:width$} {:>6} {:>8.1} {:>10.1} {:>10.1} {:>10.1} {:>7} {:>7} {:>10} {:>9} {:>9} {:>6}",
        name(row).chars().take(width).collect::<String>(),
        whole(row, "weight"),
        number(row, "wanted") * 100.0,
        number(row, "achieved") * 100.0,
        number(row, "read_bytes_per_s") / 1e6,
        number(row, "written_bytes_per_s") / 1e6,
        whole(row, "queued"),
        whole(row, "in_service"),
        whole(row, "unanswered"),
        latency(&row["p50_ms"]),
        latency(&row["p99_ms"]),
        whole(row, "late"),
    )
}

/// Servers and peers in a line.
fn below(status: &Value) -> String {
    let servers = status["servers"].as_array().into_iter().flatten().map(|server| {
        let bytes = |key| shown::size(whole(server, key));
        let (in_flight, depth) = (bytes("in_flight_bytes"), bytes("depth_bytes"));
        format!("{}: {in_flight} of {depth} outstanding", name(server))
    });
    let peers = whole(&status["exchange"], "live_peers");
    let memory = shown::size(whole(status, "resident_bytes"));
    let own = format!("{}, {:.1} CPU s, {memory}", shown::count(peers, "peer"), number(status, "cpu_s"));
    servers.chain([own]).collect::<Vec<_>>().join("; ")
}

fn name(row: &Value) -> String {
    shown::one_line(row["name"].as_str().unwrap_or("?"))
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or(0.0)
}

fn whole(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or(0)
}

fn latency(value: &Value) -> String {
    value.as_f64().map_or("-".into(), |milliseconds| format!("{milliseconds:.1}"))
}

fn fetch(address: &str) -> anyhow::Result<Value> {
    let body = get(address, "/status.json").with_context(|| format!("the gate's metrics at {address}"))?;
    serde_json::from_str(&body).with_context(|| {
        let why = format!("{address} answers, but not as a gate's metrics address does");
        Coded::new(ErrorCode::GateSilent, why)
    })
}

fn get(address: &str, path: &str) -> anyhow::Result<String> {
    let target = address.to_socket_addrs().ok().and_then(|mut found| found.next());
    let target = target.context(Coded::new(ErrorCode::Address, "no HOST:PORT of a machine that is known"))?;
    let asked = TcpStream::connect_timeout(&target, TIMEOUT);
    let mut stream =
        asked.context(Coded::new(ErrorCode::GateSilent, "is a gate there? `metrics` in the gate's file says where"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MAX_BYTES).read_to_string(&mut answer).map_err(unanswered)?;
    let (head, body) = answer.split_once("\r\n\r\n").context(Coded::new(ErrorCode::GateSilent, "no HTTP answer"))?;
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        _ => fail!(GateSilent: "answered {}", shown::one_line(head.lines().next().unwrap_or(""))),
    }
}

/// Explains a socket's timeout; the system's words for it do not.
fn unanswered(error: std::io::Error) -> anyhow::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            let why = format!("no answer came within {} s: is the gate stopped?", TIMEOUT.as_secs());
            Coded::new(ErrorCode::GateSilent, why).into()
        }
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_gate_that_does_not_answer_is_said_to() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = silent.local_addr().expect("its address").to_string();
        let said = format!("{:#}", fetch(&address).expect_err("no server answers"));
        assert!(said.ends_with("no answer came within 5 s: is the gate stopped?"), "{said}");
    }

    fn application(name: &str, achieved: f64) -> Value {
        json!({
            "name": name, "weight": 16, "wanted": 16.0 / 17.0, "achieved": achieved, "outstanding": achieved,
            "read_bytes_per_s": 1.5e6, "written_bytes_per_s": 48e6, "queued": 3, "in_service": 2, "unanswered": 5,
            "p50_ms": 1.25, "p99_ms": null, "late": 7,
        })
    }

    fn status(applications: &[Value]) -> Value {
        let servers = json!([{ "name": "127.0.0.1:9000", "depth_bytes": 524_288, "in_flight_bytes": 65_536 }]);
        json!({ "applications": applications, "servers": servers, "exchange": { "live_peers": 1 }, "cpu_s": 2.0 })
    }

    #[test]
    fn a_row_has_all_an_administrator_asks_for() {
        let lines = table(&status(&[application("climate", 0.9)]), usize::MAX);
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(words, ["climate", "16", "94.1", "90.0", "1.5", "48.0", "3", "2", "5", "1.2", "-", "7"]);
        assert!(lines[0].len() == lines[1].len(), "{lines:?}");
        assert_eq!(lines[2], "127.0.0.1:9000: 64.0 KiB of 512.0 KiB outstanding; 1 peer, 2.0 CPU s, 0 B");
    }

    #[test]
    fn on_a_small_terminal_the_idle_ones_give_way() {
        let applications = [application("a", 0.0), application("b", 0.5), application("c", 0.5)];
        let lines = table(&status(&applications), 2);
        assert!(lines[1].starts_with("b ") && lines[2].starts_with("c ") && lines[3] == "(1 more)", "{lines:?}");
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        let lines = table(&status(&[application("\x1b[2Jx", 0.9)]), usize::MAX);
        assert!(lines.iter().all(|line| !line.contains('\x1b')));
    }
}
