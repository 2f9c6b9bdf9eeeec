//! The debugger: `--gdb`, a target of gdb's remote protocol (`docs/gdb.md`).
//!
//! gdb stops the machine between two instructions and looks at it from outside. The guest cannot tell:
//! breakpoints are not in its memory or debug registers (`x86/src/stops.rs`), and however often it is
//! stopped, it executes and counts what it does without a debugger. What gdb writes to registers and memory
//! is another matter.
//!
//! Processors are threads. They share one time line on which they take turns (`turns.rs`), so that one
//! cannot run while the others stand still without changing who does what when. A step of a thread therefore
//! runs the machine until the thread is about to execute its next instruction.
//!
//! * `connection.rs`: the socket, and the threads that listen and read.
//! * `target.rs`: what gdb may ask for, by the traits of `gdbstub`: threads, registers, memory, breakpoints.
//! * `registers.rs`, `description.rs`: which registers there are.
//! * `breakpoints.rs`: where to stop. `running.rs`: from there to there.
//! * `reverse.rs`: backwards, from snapshots in memory.
//! * `monitor.rs`: the commands behind `monitor`; `symbol_file.rs`: one of them.

mod breakpoints;
mod connection;
mod description;
mod monitor;
mod registers;
mod reverse;
mod running;
mod symbol_file;
mod target;

use gdbstub::stub::{DisconnectReason, GdbStub};

pub use self::connection::Address;
use self::connection::{Link, Listener};
use self::running::EventLoop;
use self::target::Session;
use crate::console::Console;
use crate::error::{Error, Result};
use crate::machine::{End, Machine};
use crate::output::say;
use crate::stop::Stop;

/// How a session with gdb ended.
enum Outcome {
    /// gdb is gone, and the guest goes on.
    Detached,
    /// With the run.
    Ended(End),
}

/// Where the run of a machine is debugged.
pub struct Debugger {
    listener: Listener,
    /// The exit status that stands for an end.
    status: fn(End) -> u8,
}

impl Debugger {
    /// Listens from now on. gdb is told of the guest's end by this exit status.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn listen(address: &Address, status: fn(End) -> u8, stop: &Stop) -> Result<Self> {
        Ok(Self { listener: Listener::new(address, stop)?, status })
    }

    /// Runs a machine until the guest ends, `stop` is requested, so many instructions have retired, or gdb
    /// kills it. It stands still before its first instruction until gdb has connected. When gdb is gone it
    /// goes on, and stops when gdb connects again.
    ///
    /// # Errors
    /// As [`Machine::run_until`].
    pub fn run(
        &self,
        machine: &mut Machine,
        stop: &Stop,
        instructions: Option<u64>,
        console: &mut Console,
    ) -> Result<End> {
        say(&format!("waiting for gdb: target remote {}", self.listener.address()), stop);
        if machine.sees.instructions {
            // gdb may put the machine back.
            console.remember();
        }
        let mut link = self.listener.accept();
        loop {
            if let Some(link) = link.take() {
                let mut session = Session::new(machine, stop, instructions, console);
                session.status = self.status;
                if let Outcome::Ended(end) = debug(session, link)? {
                    return Ok(end);
                }
            }
            match machine.run_until(stop, instructions, console)? {
                End::Paused => link = self.listener.accepted(),
                end => return Ok(end),
            }
        }
    }
}

/// Lets gdb have a machine for as long as it is there.
fn debug(mut session: Session<'_>, link: Link) -> Result<Outcome> {
    let stop = session.stop;
    let reason = GdbStub::new(link).run_blocking::<EventLoop<'_>>(&mut session);
    let ended = session.leave();
    Ok(match (reason, ended) {
        (Ok(DisconnectReason::Kill), _) => Outcome::Ended(End::Quit),
        (_, Some(end)) => Outcome::Ended(end),
        (Ok(_), None) => Outcome::Detached,
        (Err(error), None) if error.is_target_error() => {
            return Err(error
                .into_target_error()
                .unwrap_or_else(|| Error::Host("the debugger has failed".into())));
        }
        (Err(error), None) => {
            if !error.is_connection_error() {
                say(&format!("gdb is let go: {error}"), stop);
            }
            Outcome::Detached
        }
    })
}

#[cfg(test)]
mod streams_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod typed_tests;
