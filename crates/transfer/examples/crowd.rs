//! Opens many connections to a node and keeps them: `crowd HOST:PORT COUNT`. Prints the seconds that connecting took; for
//! each line of its input has every connection ask something at once, and prints the seconds until all are answered.
//! Ends with its input.

use std::io;
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thalweg_transfer as transfer;
use transfer::Connection;
use transfer::message::Request;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, count] = &arguments[..] else { return Err("usage: crowd HOST:PORT COUNT".into()) };
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    let begun = Instant::now();
    let crowd = (1..=count.parse()?).map(|client| greeted(address, client)).collect::<transfer::Result<Vec<_>>>()?;
    println!("{:.3}", begun.elapsed().as_secs_f64());
    for (round, line) in io::stdin().lines().enumerate() {
        line?;
        let begun = Instant::now();
        let number = round as u64 + 2;
        crowd.iter().try_for_each(|connection| send(connection, number, &Request::Release { owner: 1 }))?;
        crowd.iter().try_for_each(|connection| answered(connection, number))?;
        println!("{:.3}", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

fn greeted(address: &str, client: u64) -> transfer::Result<Connection> {
    let connection = Connection::open(address)?;
    let hello = Request::Hello { client, stream: 0, job: "crowd".into(), application: String::new() };
    send(&connection, 1, &hello)?;
    answered(&connection, 1)?;
    Ok(connection)
}

fn send(connection: &Connection, number: u64, request: &Request) -> transfer::Result<()> {
    connection.send(request.kind(), number, &request.encode(), &[])
}

/// Skips what the node sends unasked.
fn answered(connection: &Connection, number: u64) -> transfer::Result<()> {
    while let Some(frame) = connection.receive()? {
        if frame.header.request == number {
            return Ok(());
        }
    }
    Err(transfer::Error::Unavailable { peer: connection.peer().to_owned(), why: "it ended the connection".to_owned() })
}
