//! The gate's one file, checked. `docs/gate.md` is the reference for its authors.

mod bytes;
mod document;
mod network;
mod rule;

use std::collections::HashSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use policy::fairness::{Depth, Kind, Settings};

use crate::error::{Error, Result};
use crate::regular_file::read_regular;
use document::{Document, Section};
pub use rule::{Facts, Match};

/// Requests that no rule matches belong to this application, which has weight 1 unless the file gives it another.
pub const OTHER: &str = "other";
/// The cost of an operation by itself, in bytes, unless the file says otherwise.
const OPERATION_BYTES: u64 = 4096;
/// The memory that waiting calls may hold, unless the file says otherwise.
const CALL_MEMORY_BYTES: usize = 64 << 20;
/// Room for the longest call of a server that offers transfers of 1 MiB, and for some of another's beside it.
const MIN_CALL_MEMORY_BYTES: usize = 4 << 20;
const LARGEST_CALL_MEMORY_BYTES: usize = 64 << 30;
const MAX_CONNECTIONS_PER_CLIENT: u64 = 1 << 20;
const MIN_TRANSFER_BYTES: u32 = 4 << 10;
/// The most that Linux clients ask for. A call is the unit of sharing: one of 64 MiB would keep others waiting.
const MAX_TRANSFER_BYTES: u32 = 1 << 20;
const LARGEST_WEIGHT: u64 = 1 << 20;
const LARGEST_WAITING_SHARE: f64 = 0.5;
const MIN_DEPTH_BYTES: u64 = 64 << 10;
const LARGEST_DEPTH_BYTES: u64 = 1 << 32;
pub(crate) const DAY_MS: u64 = 24 * 3600 * 1000;
const EXCHANGE_INTERVAL_MS: u64 = 25;
/// Shares older than this are not worth exchanging.
const LONGEST_EXCHANGE_INTERVAL_MS: u64 = 50;

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub settings: Settings,
    /// The cost of an operation by itself, in bytes.
    pub operation_bytes: u64,
    /// The memory that RPC calls may hold while they wait for their grants, all together.
    pub call_memory_bytes: usize,
    /// The connections of one client address, at each S3 listener and at all others together; none: a quarter of all.
    pub connections_per_client: Option<usize>,
    /// Whether requests of applications that the file does not list may bring a deadline of their own.
    pub anyone_sets_deadlines: bool,
    pub listens: Vec<Listen>,
    /// In the order of the file: the first whose rule holds takes the request.
    pub applications: Vec<ApplicationEntry>,
    pub groups: Vec<GroupEntry>,
    pub metrics: Option<SocketAddr>,
    pub exchange: Option<Exchange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    S3,
    Nfs,
    Gluster,
}

/// One address clients connect to, and the server behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Listen {
    pub protocol: Protocol,
    pub address: String,
    /// `host:port`; listeners that name the same server share it.
    pub upstream: String,
    pub tls: Option<Identity>,
    pub upstream_tls: Option<UpstreamTls>,
    /// Buckets are named by hosts that end so: with `s3.example`, `data.s3.example` is the bucket `data`.
    pub host_suffix: Option<String>,
    /// NFS: the server's export here, as rules name it.
    pub export: Option<String>,
    /// NFS: the most that one READ or WRITE may carry (bytes), where the server offers more.
    pub max_transfer_bytes: u32,
}

/// The gate's certificate for its clients: PEM files.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamTls {
    /// A PEM file of the authorities that may vouch for the server.
    pub ca: PathBuf,
    /// The name its certificate must bear.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ApplicationEntry {
    pub name: String,
    pub weight: u32,
    pub group: Option<String>,
    pub deadline: Option<Duration>,
    pub matches: Match,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GroupEntry {
    pub name: String,
    pub weight: u32,
}

/// Gates that count service together.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    pub address: SocketAddr,
    pub peers: Vec<String>,
    pub interval: Duration,
    /// A secret that all of them share.
    pub key: Option<String>,
}

impl Config {
    pub fn load(path: &Path) -> Result<Config> {
        let text = read_regular(path).map_err(|error| Error::Unreadable { path: path.to_owned(), error })?;
        Config::parse(path, &text)
    }

    /// `path` is only for messages, and for files named relative to it.
    pub fn parse(path: &Path, text: &str) -> Result<Config> {
        let document = Document { path, text };
        let table = document.parse()?;
        let mut top = Section::top(&document, &table);
        let groups = read_groups(&mut top)?;
        let config = Config {
            settings: read_settings(&mut top)?,
            operation_bytes: read_operation_cost(&mut top)?,
            call_memory_bytes: read_call_memory(&mut top)?,
            connections_per_client: read_connections_per_client(&mut top)?,
            anyone_sets_deadlines: read_deadline_header(&mut top)?,
            listens: read_listens(&mut top, path)?,
            applications: read_applications(&mut top, &groups)?,
            groups,
            metrics: read_address(&mut top, "metrics")?,
            exchange: top.section("exchange")?.map(read_exchange).transpose()?,
        };
        top.finish()?;
        Ok(config)
    }
}

fn read_settings(top: &mut Section<'_>) -> Result<Settings> {
    let mut settings = Settings::default();
    if let Some(name) = top.string("scheduler")? {
        let found = KINDS.iter().find(|(known, _)| *known == name);
        let names = KINDS.map(|(name, _)| name).join(", ");
        let wrong = || top.mistake("scheduler", format_args!("`{name}` is none of {names}"));
        settings.kind = found.ok_or_else(wrong)?.1;
    }
    settings.depth = match top.string_or_integer("depth")?.as_deref() {
        None | Some("auto") => Depth::Auto,
        Some(text) => {
            let bytes = bytes::parse(text).filter(|bytes| (MIN_DEPTH_BYTES..=LARGEST_DEPTH_BYTES).contains(bytes));
            let wrong = || top.mistake("depth", "\"auto\" or 64 KiB to 4 GiB is needed, like \"512 KiB\"");
            Depth::Bytes(bytes.ok_or_else(wrong)?)
        }
    };
    if let Some(share) = top.fraction("waiting_share", LARGEST_WAITING_SHARE)? {
        settings.waiting_share = share;
    }
    Ok(settings)
}

fn read_operation_cost(top: &mut Section<'_>) -> Result<u64> {
    let Some(text) = top.string_or_integer("operation_cost")? else { return Ok(OPERATION_BYTES) };
    let bytes = bytes::parse(&text).filter(|bytes| *bytes <= LARGEST_DEPTH_BYTES);
    bytes.ok_or_else(|| top.mistake("operation_cost", "an amount like \"4 KiB\" is needed"))
}

fn read_deadline_header(top: &mut Section<'_>) -> Result<bool> {
    match top.string("deadline_header")? {
        None | Some("listed") => Ok(false),
        Some("anyone") => Ok(true),
        Some(other) => {
            Err(top.mistake("deadline_header", format_args!("`{other}` is neither \"listed\" nor \"anyone\"")))
        }
    }
}

fn read_connections_per_client(top: &mut Section<'_>) -> Result<Option<usize>> {
    let limit = top.integer("connections_per_client", 1..=MAX_CONNECTIONS_PER_CLIENT)?;
    Ok(limit.map(|limit| usize::try_from(limit).expect("checked just now")))
}

fn read_call_memory(top: &mut Section<'_>) -> Result<usize> {
    let Some(text) = top.string_or_integer("call_memory")? else { return Ok(CALL_MEMORY_BYTES) };
    let bytes = bytes::parse(&text).and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.filter(|bytes| (MIN_CALL_MEMORY_BYTES..=LARGEST_CALL_MEMORY_BYTES).contains(bytes));
    bytes.ok_or_else(|| top.mistake("call_memory", "4 MiB to 64 GiB is needed, like \"64 MiB\""))
}

/// A power of two: clients round down to pages or to powers of two, not all in the same way.
fn read_max_transfer(section: &mut Section<'_>) -> Result<u32> {
    let Some(text) = section.string_or_integer("max_transfer")? else { return Ok(MAX_TRANSFER_BYTES) };
    let bytes = bytes::parse(&text).and_then(|bytes| u32::try_from(bytes).ok());
    let bytes = bytes.filter(|bytes| bytes.is_power_of_two() && *bytes >= MIN_TRANSFER_BYTES);
    let wrong = || section.mistake("max_transfer", "a power of two from 4 KiB on is needed, like \"256 KiB\"");
    bytes.ok_or_else(wrong)
}

fn read_listens(top: &mut Section<'_>, path: &Path) -> Result<Vec<Listen>> {
    let sections = top.sections("listen")?;
    if sections.is_empty() {
        return Err(top.mistake("listen", "the gate has no server: add a [[listen]]"));
    }
    let mut taken = HashSet::new();
    let mut listens = Vec::new();
    for mut section in sections {
        let protocol = read_protocol(&mut section)?;
        refuse_keys_of_others(&section, protocol)?;
        let listen = Listen {
            protocol,
            address: needed_address(&mut section, "address")?,
            upstream: needed_address(&mut section, "upstream")?,
            tls: section.section("tls")?.map(|tls| read_identity(tls, path)).transpose()?,
            upstream_tls: section.section("upstream_tls")?.map(|tls| read_upstream_tls(tls, path)).transpose()?,
            host_suffix: section.string("host_suffix")?.map(str::to_owned),
            export: section.string("export")?.map(str::to_owned),
            max_transfer_bytes: read_max_transfer(&mut section)?,
        };
        if !listen.address.ends_with(":0") && !taken.insert(listen.address.clone()) {
            return Err(section.mistake("address", "another [[listen]] has this address already"));
        }
        if listen.upstream == listen.address {
            return Err(section.mistake("upstream", "is this [[listen]] itself; the server's address is needed"));
        }
        section.finish()?;
        listens.push(listen);
    }
    Ok(listens)
}

/// An ignored key would mislead: an NFS listener with `tls` is not encrypted.
fn refuse_keys_of_others(section: &Section<'_>, protocol: Protocol) -> Result<()> {
    let foreign = KEYS_OF_ONE_PROTOCOL.iter().find(|(key, owner, _)| *owner != protocol && section.has(key));
    let Some((key, _, name)) = foreign else { return Ok(()) };
    Err(section.mistake(key, format_args!("is only for protocol = \"{name}\"")))
}

fn read_protocol(section: &mut Section<'_>) -> Result<Protocol> {
    match section.needed_string("protocol")? {
        "s3" => Ok(Protocol::S3),
        "nfs" => Ok(Protocol::Nfs),
        "gluster" => Ok(Protocol::Gluster),
        other => Err(section.mistake("protocol", format_args!("`{other}` is none of s3, nfs, gluster"))),
    }
}

/// `host:port`, where the host is a name, an IPv4 address or an IPv6 address in brackets.
fn needed_address(section: &mut Section<'_>, key: &'static str) -> Result<String> {
    let text = section.needed_string(key)?;
    whole_address(section, key, text)
}

fn whole_address(section: &Section<'_>, key: &str, text: &str) -> Result<String> {
    let parts = text.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    let is_whole = parts.is_some_and(|(host, _)| !host.contains(':') || (host.starts_with('[') && host.ends_with(']')));
    if !is_whole {
        return Err(section.mistake(key, format_args!("`{text}` is no HOST:PORT")));
    }
    Ok(text.to_owned())
}

fn read_address(section: &mut Section<'_>, key: &'static str) -> Result<Option<SocketAddr>> {
    let Some(text) = section.string(key)? else { return Ok(None) };
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    let wrong = || section.mistake(key, format_args!("`{text}` is no ADDRESS:PORT of this machine"));
    Ok(Some(found.ok_or_else(wrong)?))
}

fn read_identity(mut section: Section<'_>, path: &Path) -> Result<Identity> {
    let certificate = beside(path, section.needed_string("certificate")?);
    let key = beside(path, section.needed_string("key")?);
    section.finish()?;
    Ok(Identity { certificate, key })
}

fn read_upstream_tls(mut section: Section<'_>, path: &Path) -> Result<UpstreamTls> {
    let ca = beside(path, section.needed_string("ca")?);
    let name = section.needed_string("name")?.to_owned();
    section.finish()?;
    Ok(UpstreamTls { ca, name })
}

/// Names in the file are relative to the file.
fn beside(path: &Path, name: &str) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).join(name)
}

fn read_weight(section: &mut Section<'_>) -> Result<u32> {
    let weight = section.integer("weight", 1..=LARGEST_WEIGHT)?.unwrap_or(1);
    Ok(u32::try_from(weight).expect("checked just now"))
}

/// Returns a name that no earlier section has.
fn read_name(section: &mut Section<'_>, taken: &mut HashSet<String>) -> Result<String> {
    let name = section.needed_string("name")?.to_owned();
    if name.is_empty() || name.chars().any(|letter| letter.is_control() || letter == '"') {
        return Err(section.mistake("name", "a name without quotes and control characters is needed"));
    }
    if !taken.insert(name.clone()) {
        return Err(section.mistake("name", format_args!("`{name}` is there twice")));
    }
    Ok(name)
}

fn read_groups(top: &mut Section<'_>) -> Result<Vec<GroupEntry>> {
    let mut taken = HashSet::new();
    let mut groups = Vec::new();
    for mut section in top.sections("group")? {
        let name = read_name(&mut section, &mut taken)?;
        groups.push(GroupEntry { name, weight: read_weight(&mut section)? });
        section.finish()?;
    }
    Ok(groups)
}

fn read_applications(top: &mut Section<'_>, groups: &[GroupEntry]) -> Result<Vec<ApplicationEntry>> {
    let mut taken = HashSet::new();
    let mut applications: Vec<ApplicationEntry> = Vec::new();
    for mut section in top.sections("application")? {
        if let Some(earlier) = applications.iter().find(|earlier| earlier.matches.holds_for_all()) {
            let why = format!("is never reached: `{}` has no match and takes all; put it last", earlier.name);
            return Err(section.mistake("name", why));
        }
        let entry = ApplicationEntry {
            name: read_name(&mut section, &mut taken)?,
            weight: read_weight(&mut section)?,
            group: read_group(&mut section, groups)?,
            deadline: section.integer("deadline_ms", 1..=DAY_MS)?.map(Duration::from_millis),
            matches: Match::read(&mut section)?,
        };
        section.finish()?;
        applications.push(entry);
    }
    Ok(applications)
}

fn read_group(section: &mut Section<'_>, groups: &[GroupEntry]) -> Result<Option<String>> {
    let Some(name) = section.string("group")? else { return Ok(None) };
    if !groups.iter().any(|group| group.name == name) {
        return Err(section.mistake("group", format_args!("there is no [[group]] named `{name}`")));
    }
    Ok(Some(name.to_owned()))
}

fn read_exchange(mut section: Section<'_>) -> Result<Exchange> {
    let missing = section.mistake("address", "is missing");
    let peers = section.strings("peers")?;
    let peers = peers.into_iter().map(|peer| whole_address(&section, "peers", peer)).collect::<Result<_>>()?;
    let key = section.string("key")?;
    if key == Some("") {
        return Err(section.mistake("key", "an empty secret is none; leave the key out, or write what all peers share"));
    }
    let interval_ms = section.integer("interval_ms", 1..=LONGEST_EXCHANGE_INTERVAL_MS)?;
    let exchange = Exchange {
        address: read_address(&mut section, "address")?.ok_or(missing)?,
        peers,
        interval: Duration::from_millis(interval_ms.unwrap_or(EXCHANGE_INTERVAL_MS)),
        key: key.map(str::to_owned),
    };
    section.finish()?;
    Ok(exchange)
}

const KEYS_OF_ONE_PROTOCOL: [(&str, Protocol, &str); 5] = [
    ("tls", Protocol::S3, "s3"),
    ("upstream_tls", Protocol::S3, "s3"),
    ("host_suffix", Protocol::S3, "s3"),
    ("export", Protocol::Nfs, "nfs"),
    ("max_transfer", Protocol::Nfs, "nfs"),
];

const KINDS: [(&str, Kind); 5] = [
    ("fifo", Kind::Fifo),
    ("sfq", Kind::Sfq),
    ("sfq-depth", Kind::SfqD),
    ("deadline", Kind::Deadline),
    ("anticipating", Kind::Anticipating),
];

#[cfg(test)]
mod tests;
