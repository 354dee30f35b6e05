//! `thalweg-load PLAN.json`: keeps a fixed number of requests outstanding for each application (closed loop) and prints,
//! as JSON, what each moved in every interval and how long its requests took. S3 runs on one thread with epoll, files on
//! one thread for each outstanding request: the generator must leave the processors to what is measured.

mod files;
mod ledger;
mod plan;
mod s3;
mod sign;

use std::time::Instant;

use anyhow::{Context, Result};

use ledger::Ledger;
use plan::{Plan, Target};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).context("give the plan: thalweg-load PLAN.json")?;
    let text = std::fs::read(&path).with_context(|| format!("cannot read the plan {path}"))?;
    let plan: Plan = serde_json::from_slice(&text).with_context(|| format!("{path} is no plan"))?;
    plan.check()?;
    // The clients of the objects and those of the files share one beginning and one end.
    let ledger = Ledger::new(&plan, Instant::now());
    std::thread::scope(|scope| -> Result<()> {
        let threads = files::start(scope, &plan, &ledger)?;
        if plan.parts().any(|(_, part)| matches!(part.target, Target::S3(_))) {
            s3::run(&plan, &ledger)?;
        }
        threads.into_iter().try_for_each(|thread| thread.join().expect("a client does not panic"))
    })?;
    println!("{}", serde_json::to_string(&ledger.report(&plan))?);
    Ok(())
}
