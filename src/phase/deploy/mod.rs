//! `macluster deploy`: the phases in order. Each is one file with what it does and what takes it back.

mod activate;
mod configure;
mod context;
mod divide;
mod health;
mod install;
mod launch;
mod lock;
mod model;
mod network;
mod preflight;
mod provide;
mod push;
mod retire;
mod space;

use futures::future::BoxFuture;

pub use context::{Cause, PhaseFailure};
pub use context::{Deploy, Deployed, Options, Target};
pub use space::available_kib;

use crate::event::Event;

/// One step of a deploy.
pub trait Phase: Sync {
    /// Stable id.
    fn id(&self) -> &'static str;
    /// For people.
    fn title(&self) -> &'static str;
    /// Does it, on all nodes.
    fn run<'a>(&'a self, deploy: &'a mut Deploy) -> BoxFuture<'a, Result<(), PhaseFailure>>;
    /// Takes it back after it, or a later phase, failed. Gives what a person must know.
    fn undo<'a>(&'a self, _deploy: &'a mut Deploy) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async { Vec::new() })
    }
}

/// From the desk to the first token. Nothing that runs is touched before `retire`.
pub const PHASES: [&dyn Phase; 11] = [
    &preflight::Preflight,
    &network::Network,
    &provide::Provide,
    &push::Push,
    &install::Install,
    &model::Model,
    &configure::Configure,
    &retire::Retire,
    &activate::Activate,
    &launch::Launch,
    &health::Health,
];

/// Phases before the person is asked: they change nothing on the nodes.
pub const LOOKING: usize = 2;

/// What a deploy that failed leaves behind.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Title of the phase that failed.
    pub phase: &'static str,
    /// Why.
    pub failure: PhaseFailure,
    /// What was taken back, and what could not be.
    pub aftermath: Vec<String>,
}

/// Runs these phases. When one fails, it and all before it are taken back, last first.
///
/// # Errors
/// Which phase failed, why, and what was taken back.
pub async fn run(phases: &[&dyn Phase], deploy: &mut Deploy) -> Result<(), Box<Broken>> {
    for phase in phases {
        deploy.events.emit(Event::PhaseStarted { id: phase.id(), title: phase.title().to_owned() });
        deploy.reached = deploy.reached.max(position(*phase) + 1);
        let result = phase.run(deploy).await;
        deploy.events.emit(Event::PhaseDone { id: phase.id(), ok: result.is_ok() });
        let Err(mut failure) = result else { continue };
        deploy.add_logs(&mut failure).await;
        let aftermath = undo(deploy).await;
        return Err(Box::new(Broken { phase: phase.title(), failure, aftermath }));
    }
    Ok(())
}

fn position(phase: &dyn Phase) -> usize {
    PHASES.iter().position(|p| p.id() == phase.id()).unwrap_or_default()
}

/// Takes back every phase that was begun, last first; also after an interrupt.
pub async fn undo(deploy: &mut Deploy) -> Vec<String> {
    let mut aftermath = Vec::new();
    for phase in PHASES.iter().take(deploy.reached).rev() {
        aftermath.extend(phase.undo(deploy).await);
    }
    deploy.reached = 0;
    aftermath
}
