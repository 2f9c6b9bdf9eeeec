//! The host's performance counters, for `--count host`.
//!
//! One of the modules with `unsafe`: it opens descriptors that the standard library has no calls for.
//!
//! A counter of the guest that is enabled has one of the host's, pinned to the thread of its
//! processor and counting in the guest only. At each exit what it has counted is added to the guest's
//! counter, which wraps, sets status bits and interrupts as it always does. The host's counter is set
//! to overflow together with the guest's, and then signals the thread: that ends `KVM_RUN`, and the
//! rest happens at that exit. A signal needs no thread to wait for it, as an event descriptor would,
//! and one that comes too late, or outside of the guest, is harmless.

#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::mem;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::ptr;

use perf_event_open_sys::bindings::{PERF_FLAG_FD_CLOEXEC, perf_event_attr};
use perf_event_open_sys::{ioctls, perf_event_open};
use pmu_model::explain::selection_words;
use pmu_model::{MAX_COUNTERS, Personality, Pmis, Pmu, Select};
use vmm_sys_util::signal::SIGRTMIN;

use super::host_events::{self, HostSelect, Row, TABLE};
use crate::error::{Error, Result};

/// `fcntl` commands and a kind of owner that `libc` does not have everywhere (fcntl.h).
const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;
const F_OWNER_TID: libc::c_int = 0;
/// `perf_event_open`: whatever processor the thread is on; no group.
const ANY_CPU: libc::c_int = -1;
const NO_GROUP: libc::c_int = -1;
/// The longest period that the kernel takes.
const LONGEST: u64 = i64::MAX as u64;
/// Every privilege level.
const ALL_CPLS: u8 = 0b1111;
/// Who may count what: the kernel's setting, for an error's text.
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// The owner of a descriptor's signals.
#[repr(C)]
struct Owner {
    kind: libc::c_int,
    id: libc::pid_t,
}

/// One counter of the host, of the thread that opened it.
#[derive(Debug)]
struct HostCounter {
    file: File,
    select: HostSelect,
    /// What it read last.
    seen: u64,
    /// What it will read when it overflows.
    due: u64,
}

impl HostCounter {
    /// Opens and starts a counter that sends this thread `signal` after `distance` occurrences.
    fn open(select: HostSelect, distance: u64, signal: libc::c_int) -> io::Result<Self> {
        let distance = distance.clamp(1, LONGEST);
        let mut attr = perf_event_attr {
            type_: select.perf_type,
            size: mem::size_of::<perf_event_attr>() as u32,
            config: select.config,
            ..Default::default()
        };
        attr.__bindgen_anon_1.sample_period = distance;
        attr.set_disabled(1);
        attr.set_pinned(1);
        attr.set_exclude_host(1);
        attr.set_exclude_hv(1);
        attr.set_exclude_user(select.exclude_user.into());
        attr.set_exclude_kernel(select.exclude_kernel.into());
        let flags = libc::c_ulong::from(PERF_FLAG_FD_CLOEXEC);
        // SAFETY: `attr` is a whole structure of the size that it says; pid 0 is this thread. An
        // event of a type without a ring buffer touches no memory of the process.
        let fd = unsafe { perf_event_open(&raw mut attr, 0, ANY_CPU, NO_GROUP, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { File::from_raw_fd(fd) };
        // SAFETY: has no preconditions.
        let owner = Owner { kind: F_OWNER_TID, id: unsafe { libc::gettid() } };
        let flags = libc::O_ASYNC | libc::O_NONBLOCK;
        // SAFETY: the descriptor is open; the kernel reads an `Owner`, which has the layout of
        // `struct f_owner_ex`, and two integers; `ENABLE` takes a flag, none here.
        let done = unsafe {
            libc::fcntl(fd, F_SETOWN_EX, &raw const owner) >= 0
                && libc::fcntl(fd, F_SETSIG, signal) >= 0
                && libc::fcntl(fd, libc::F_SETFL, flags) >= 0
                && ioctls::ENABLE(fd, 0) >= 0
        };
        if !done {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { file, select, seen: 0, due: distance })
    }

    /// What it has counted since it was asked last; `None` if the host has taken the counter away.
    fn take(&mut self) -> io::Result<Option<u64>> {
        let mut bytes = [0; 8];
        // A pinned event that the host's PMU has no room for reads as the end of the file.
        if self.file.read(&mut bytes)? < bytes.len() {
            return Ok(None);
        }
        let now = u64::from_ne_bytes(bytes);
        let seen = mem::replace(&mut self.seen, now);
        Ok(Some(now.saturating_sub(seen)))
    }

    /// From now on it signals after `distance` more occurrences, if it would not anyway.
    fn signal_after(&mut self, distance: u64) -> io::Result<()> {
        let distance = distance.clamp(1, LONGEST);
        let due = self.seen.saturating_add(distance);
        if due == self.due {
            return Ok(());
        }
        // The binding declares a number; the kernel reads it at an address.
        let address = ptr::from_ref(&distance) as u64;
        // SAFETY: the descriptor is open, and the kernel reads a u64 at the address, which is one.
        if unsafe { ioctls::PERIOD(self.file.as_raw_fd(), address) } < 0 {
            return Err(io::Error::last_os_error());
        }
        self.due = due;
        Ok(())
    }
}

/// Why a counter of the guest stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Still {
    /// No event of the host means the same.
    NoEvent,
    /// The host's PMU has no counter left.
    NoRoom,
}

/// What has been said about counters that stand still: of each event, once a run.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeSet<(u8, Still)>);

impl Told {
    fn tell(&mut self, pmu: &Pmu, counter: usize, why: Still) {
        let Some(select) = pmu.select(counter) else { return };
        if self.0.insert((select.event, why)) {
            log::warn!("{}", still(pmu.personality(), counter, select, why));
        }
    }
}

/// Why a counter stands still, in words.
fn still(personality: &'static Personality, counter: usize, select: &Select, why: Still) -> String {
    let words = selection_words(personality, counter, select.word);
    let why = match why {
        Still::NoEvent => "no event of the host means the same",
        Still::NoRoom => "the host's PMU has no counter left for it",
    };
    format!("{words}: {why}; counters with this event stand still")
}

/// The host's counters that count for a processor, on its thread. Without a table there are none.
pub(super) struct HostCounters {
    table: Option<&'static [Row]>,
    counters: [Option<HostCounter>; MAX_COUNTERS],
    /// The programming of the PMU that they are for.
    programmed: Option<u64>,
}

impl HostCounters {
    /// None yet.
    pub(super) fn new(table: Option<&'static [Row]>) -> Self {
        Self { table, counters: Default::default(), programmed: None }
    }

    /// Brings the guest's counters up to now, and raises what that asserts.
    ///
    /// # Errors
    /// If the host refuses.
    pub(super) fn collect(
        &mut self,
        pmu: &mut Pmu,
        told: &mut Told,
        mut raise: impl FnMut(Pmis),
    ) -> Result<()> {
        for (n, slot) in self.counters.iter_mut().enumerate() {
            let Some(counter) = slot else { continue };
            match counter.take().map_err(|e| refused("to read a counter", e))? {
                Some(more) => raise(pmu.count(n, more)),
                None => {
                    *slot = None;
                    told.tell(pmu, n, Still::NoRoom);
                }
            }
        }
        Ok(())
    }

    /// Sets them to what the PMU is programmed to, before the thread goes into the guest.
    ///
    /// # Errors
    /// If the host refuses.
    pub(super) fn follow(&mut self, pmu: &Pmu, told: &mut Told) -> Result<()> {
        let Some(table) = self.table else { return Ok(()) };
        let reprogrammed = self.programmed.replace(pmu.programmings()) != Some(pmu.programmings());
        for (n, slot) in self.counters.iter_mut().enumerate() {
            let distance = distance(pmu, n);
            if reprogrammed {
                let select = pmu.select(n).filter(|select| select.enabled);
                let wanted = select.and_then(|select| {
                    let row = host_events::find(table, pmu.personality(), n, select)?;
                    Some(HostSelect::new(row, select.cpls))
                });
                if select.is_some() && wanted.is_none() {
                    told.tell(pmu, n, Still::NoEvent);
                }
                if slot.as_ref().map(|counter| counter.select) != wanted {
                    // The old one first: the new one may need its place.
                    *slot = None;
                    *slot = wanted
                        .map(|select| HostCounter::open(select, distance, SIGRTMIN()))
                        .transpose()
                        .map_err(|e| refused("a counter", e))?;
                }
            }
            if let Some(counter) = slot {
                counter.signal_after(distance).map_err(|e| refused("a period", e))?;
            }
        }
        Ok(())
    }
}

/// Occurrences to the overflow of a counter.
fn distance(pmu: &Pmu, counter: usize) -> u64 {
    let mask = pmu.personality().perfctr_mask();
    pmu.registers().perfctr.get(counter).map_or(1, |&value| mask - (value & mask) + 1)
}

fn refused(what: &str, error: io::Error) -> Error {
    Error::Host(format!("the host's PMU refuses {what}: {error}; use --count exact")).because(error)
}

/// Whether this host can count: tries every event of the table.
///
/// # Errors
/// If not; the text says what to do.
pub(super) fn check() -> Result<()> {
    let opened = TABLE.iter().try_for_each(|row| {
        HostCounter::open(HostSelect::new(row, ALL_CPLS), LONGEST, SIGRTMIN()).map(drop)
    });
    opened.map_err(|error| cannot_count(&error))
}

/// Why the host does not count, and what to do.
fn cannot_count(error: &io::Error) -> Error {
    let why = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENOSYS) => {
            "this host has no performance counters, or keeps them to itself; run on one with a PMU"
                .into()
        }
        Some(libc::EACCES | libc::EPERM) => {
            let level = fs::read_to_string(PARANOID).unwrap_or_default();
            format!(
                "this host does not let you count (kernel.perf_event_paranoid is {}); set it to 1, \
                 or run with CAP_PERFMON",
                level.trim()
            )
        }
        _ => format!("this host cannot count guests: {error}"),
    };
    Error::Host(format!("--count host: {why}, or use --count exact"))
}

#[cfg(test)]
#[path = "host_counter_tests.rs"]
pub(super) mod tests;
