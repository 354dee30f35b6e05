//! Where a job's processes may run, and under which address they reach this host.
//!
//! Slurm and PBS say which hosts a job has, and mpirun's options do. Which of this host's addresses they reach is asked of the
//! kernel: the source address of the way to them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;

use anyhow::Context;
use format::ErrorCode;

use super::application;
use crate::error_code::{Coded, fail};
use crate::failure::misuse;

/// More are believed to be like those.
const MAX_HOSTS: usize = 4096;
/// Names that are looked up: a cluster's hosts are reached alike.
const MAX_LOOKED_UP: usize = 8;
/// Any: nothing is sent to it.
const PORT: u16 = 9;

/// The hosts of a job, and the source of their names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hosts {
    names: Vec<String>,
    named_by: &'static str,
}

/// Looks up a variable of the job's environment.
type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Hosts {
    /// Returns this job's hosts; none where none are named. Hosts that only srun will choose do not matter where an
    /// address `is_address_given`.
    pub fn of_job(command: &[OsString], is_address_given: bool) -> anyhow::Result<Option<Hosts>> {
        let hosts = Self::named(command, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))?;
        if hosts.is_none() && !is_address_given && is_srun(command) {
            misuse!(
                "srun would choose the job's hosts after its node was started: run this within an allocation (sbatch, \
                 salloc), or say --listen HOST:PORT, or --node ADDRESS"
            );
        }
        Ok(hosts)
    }

    fn named(command: &[OsString], variable: Variable) -> anyhow::Result<Option<Hosts>> {
        if let Some(hosts) = of_launcher(command)? {
            return Ok(Some(hosts));
        }
        if let Some(list) = variable("SLURM_JOB_NODELIST").or_else(|| variable("SLURM_NODELIST")) {
            let named_by = "SLURM_JOB_NODELIST";
            let names = expand(&list).with_context(|| Coded::new(ErrorCode::HostList, format!("{named_by}={list}")))?;
            return Ok(Some(Hosts { names, named_by }));
        }
        let Some(file) = variable("PBS_NODEFILE") else { return Ok(None) };
        Ok(Some(Hosts { names: of_file(Path::new(&file))?, named_by: "PBS_NODEFILE" }))
    }

    /// Returns this host's address as the others reach it; none when the job has no other hosts.
    pub fn own_address(&self) -> anyhow::Result<Option<IpAddr>> {
        let mut found = None;
        for name in self.names.iter().take(MAX_LOOKED_UP) {
            let there = self.look_up(name)?;
            let here = source_of(there).with_context(|| {
                let ip = there.ip();
                let why = format!("this host has no way to {name} ({ip}), one of the hosts in {}", self.named_by);
                Coded::new(ErrorCode::HostsUnreached, why)
            })?;
            // The way to one's own address begins there.
            if here != there.ip() && !here.is_loopback() {
                found = found.or(Some(here));
            }
        }
        Ok(found)
    }

    fn look_up(&self, name: &str) -> anyhow::Result<SocketAddr> {
        let addresses = (name, PORT).to_socket_addrs();
        addresses.ok().and_then(|mut found| found.next()).with_context(|| {
            let why =
                format!("{name}, one of the hosts in {}, has no address here; say --listen HOST:PORT", self.named_by);
            Coded::new(ErrorCode::HostsUnreached, why)
        })
    }

    /// Fails for an address that only this host reaches, where the job has others.
    pub fn check_reach(&self, address: &str) -> anyhow::Result<()> {
        let Ok(mut addresses) = address.to_socket_addrs() else { return Ok(()) };
        if addresses.all(|address| address.ip().to_canonical().is_loopback()) && self.own_address()?.is_some() {
            fail!(HostsUnreached: "{address} is reached by this host alone, and the job's processes may run on others ({}: {})",
                self.named_by,
                shortened(&self.names)
            );
        }
        Ok(())
    }
}

fn shortened(names: &[String]) -> String {
    match names {
        [first, second, third, .., last] => format!("{first}, {second}, {third}, … {last}"),
        few => few.join(", "),
    }
}

fn source_of(there: SocketAddr) -> std::io::Result<IpAddr> {
    let any: SocketAddr = if there.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    // Sends nothing: it only chooses the way.
    socket.connect(there)?;
    Ok(socket.local_addr()?.ip())
}

/// Returns the hosts in mpirun's own options; they come before the program's.
fn of_launcher(command: &[OsString]) -> anyhow::Result<Option<Hosts>> {
    if !command.first().is_some_and(|word| application::is_mpirun(word)) {
        return Ok(None);
    }
    let own = application::position(command).unwrap_or(command.len());
    let words: Vec<&str> = command[..own].iter().map_while(|word| word.to_str()).collect();
    for (at, word) in words.iter().enumerate().skip(1) {
        let (option, joined) = word.split_once('=').map_or((*word, None), |(option, value)| (option, Some(value)));
        let Some(value) = joined.or(words.get(at + 1).copied()) else { break };
        match option {
            "-host" | "--host" | "-hosts" | "--hosts" | "-H" => {
                let names = distinct(value.split(',').map(without_slots));
                return Ok(Some(Hosts { names, named_by: "mpirun's option --host" }));
            }
            "-hostfile" | "--hostfile" | "-machinefile" | "--machinefile" | "-f" => {
                return Ok(Some(Hosts { names: of_file(Path::new(value))?, named_by: "mpirun's host file" }));
            }
            _ => {}
        }
    }
    Ok(None)
}

fn is_srun(command: &[OsString]) -> bool {
    command.first().and_then(|word| Path::new(word).file_name()) == Some(OsStr::new("srun"))
}

/// One host a line, with other fields; `#` begins a remark.
fn of_file(path: &Path) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| Coded::new(ErrorCode::HostList, format!("reading the job's hosts, {}", path.display())))?;
    let words = text.lines().filter_map(|line| line.split('#').next()?.split_whitespace().next());
    Ok(distinct(words.map(without_slots)))
}

/// `node3:4` is node3 with 4 slots.
fn without_slots(word: &str) -> &str {
    word.split_once(':').map_or(word, |(name, _)| name)
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let names = names.filter(|name| !name.is_empty() && seen.insert(*name));
    names.take(MAX_HOSTS).map(str::to_owned).collect()
}

/// Slurm's short form: `n[1-3,07],login` is n1, n2, n3, n07 and login.
fn expand(list: &str) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    let (mut depth, mut begun) = (0, 0);
    for (at, letter) in list.char_indices().chain([(list.len(), ',')]) {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                expand_one(&list[begun..at], &mut names)?;
                begun = at + 1;
            }
            _ => {}
        }
    }
    if depth != 0 || names.is_empty() {
        fail!(HostList: "is no list of hosts");
    }
    Ok(names)
}

fn expand_one(word: &str, names: &mut Vec<String>) -> anyhow::Result<()> {
    let Some((before, rest)) = word.split_once('[') else {
        names.extend((!word.is_empty()).then(|| word.to_owned()));
        return Ok(());
    };
    let (ranges, after) = rest.split_once(']').context("is no list of hosts")?;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u64, u64) = (first.parse()?, last.parse()?);
        for number in from..=to {
            if names.len() == MAX_HOSTS {
                return Ok(());
            }
            let width = first.len();
            expand_one(&format!("{before}{number:0width$}{after}"), names)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(command: &str, variables: &[(&str, &str)]) -> Option<Vec<String>> {
        let command: Vec<OsString> = command.split(' ').map(OsString::from).collect();
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
        Hosts::named(&command, &find).unwrap().map(|hosts| hosts.names)
    }

    fn names(list: &[&str]) -> Option<Vec<String>> {
        Some(list.iter().map(|name| name.to_string()).collect())
    }

    #[test]
    fn slurms_short_form_is_every_host() {
        let slurm = |list| hosts("./app", &[("SLURM_JOB_NODELIST", list)]);
        assert_eq!(slurm("n[1-3,07],login"), names(&["n1", "n2", "n3", "n07", "login"]));
        assert_eq!(
            slurm("rack[08-10]x[1-2]"),
            names(&["rack08x1", "rack08x2", "rack09x1", "rack09x2", "rack10x1", "rack10x2"])
        );
        assert_eq!(slurm("alone"), names(&["alone"]));
        for wrong in ["n[1-", "n[1-x]", "", "n1]"] {
            assert!(expand(wrong).is_err(), "{wrong}");
        }
        assert_eq!(expand("n[0-999999999]").unwrap().len(), MAX_HOSTS);
    }

    #[test]
    fn mpiruns_own_options_come_first() {
        let given = [("SLURM_JOB_NODELIST", "n[1-9]")];
        assert_eq!(hosts("/opt/mpirun.mpich -n 2 -hosts a,b:4,a ./app", &given), names(&["a", "b"]));
        assert_eq!(hosts("mpiexec --host=c ./app", &given), names(&["c"]));
        assert_eq!(hosts("mpirun --mca plm_rsh_agent /bin/sh --map-by ls --host c ./app", &given), names(&["c"]));
        assert_eq!(hosts("mpirun -n 2 sh -f notes -H x", &[]), None, "what follows the program is the program's");
        assert_eq!(hosts("./app --host x", &[]), None);
    }

    #[test]
    fn files_of_hosts_name_each_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        std::fs::write(&file, "n1\nn1\n# a remark\nn2:4 slots=4\n\n").unwrap();
        let file = file.to_str().unwrap();
        assert_eq!(hosts("./app", &[("PBS_NODEFILE", file)]), names(&["n1", "n2"]));
        assert_eq!(hosts(&format!("mpirun --hostfile {file} ./app"), &[]), names(&["n1", "n2"]));
    }

    #[test]
    fn a_job_on_this_host_alone_needs_no_address_and_takes_any() {
        let hosts = Hosts { names: vec!["localhost".into(), "127.0.0.1".into()], named_by: "a test" };
        assert_eq!(hosts.own_address().unwrap(), None);
        assert!(hosts.check_reach("127.0.0.1:7420").is_ok());
    }

    #[test]
    fn a_host_without_an_address_is_named() {
        let hosts = Hosts { names: vec!["no-such-host.invalid".into()], named_by: "a test" };
        let said = hosts.own_address().unwrap_err().to_string();
        assert!(said.contains("no-such-host.invalid") && said.contains("--listen"), "{said}");
    }
}
