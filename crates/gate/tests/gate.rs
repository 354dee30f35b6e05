//! The gate from outside: scripted servers behind it, plain sockets before it.

#[path = "gate/fixture.rs"]
mod fixture;

#[path = "gate/applications.rs"]
mod applications;
#[path = "gate/buffering.rs"]
mod buffering;
#[path = "gate/crowds.rs"]
mod crowds;
#[path = "gate/endings.rs"]
mod endings;
#[path = "gate/health.rs"]
mod health;
#[path = "gate/limits.rs"]
mod limits;
#[path = "gate/neighbours.rs"]
mod neighbours;
#[path = "gate/passing.rs"]
mod passing;
#[path = "gate/releases.rs"]
mod releases;
#[path = "gate/reload.rs"]
mod reload;
#[path = "gate/rpc.rs"]
mod rpc;
#[path = "gate/rpc_limits.rs"]
mod rpc_limits;
#[path = "gate/sharing.rs"]
mod sharing;
#[path = "gate/tls.rs"]
mod tls;
