//! What ends a run from outside the machine: the time limit, a signal, the user's escape.
//!
//! A thread of its own waits for them and requests a [`Stop`]. The threads that run the guest or wait
//! for something check it and end the run. Should none of them do so in time, because a call to the
//! host blocks (opening or writing a file), the waiting thread ends the process.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::signal::register_signal_handler;

use crate::error::{Error, Result};
use crate::machine::End;
use crate::{output, terminal, wait};

/// The signals that ask the process to end: those that would, can be caught, and are not about
/// something that the process has just done.
pub(crate) const SIGNALS: [i32; 13] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGSTKFLT,
    libc::SIGXCPU,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
];

/// How long a run that has begun may take to end after a stop is requested.
const GRACE_PERIOD: Duration = Duration::from_secs(1);
/// As good as for ever.
const LONG: Duration = Duration::from_secs(1 << 30);

/// The number of the last signal that has not been looked at; zero if there is none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// Signalled when one came.
static CAUGHT: OnceLock<EventFd> = OnceLock::new();

/// Notes the signal. Generic so that the C type of the second argument is inferred and need not be
/// named.
extern "C" fn note_signal<T>(number: i32, _: *mut T, _: *mut c_void) {
    SIGNAL.store(number, Ordering::SeqCst);
    if let Some(caught) = CAUGHT.get() {
        // Fails for a full counter only, which wakes as well.
        let _ = caught.write(1);
    }
}

/// Does nothing: a write beyond the limit of file sizes then fails and says so.
extern "C" fn ignore<T>(_: i32, _: *mut T, _: *mut c_void) {}

/// Why a run is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The time limit was reached.
    Timeout,
    /// The user typed the escape.
    Quit,
    /// A signal asked the process to end.
    Signal(i32),
}

/// Asks a run to end. Clones are the same.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    request: OnceLock<(Cause, Instant)>,
    /// Signalled once it is requested, and from then on.
    event: EventFd,
    /// SIGUSR1 asks for a pause, and not for the end.
    pauses: AtomicBool,
    /// A pause is asked for.
    pause: AtomicBool,
    /// Since when [`Stop::computing`] is at work, and for how long it has been since the request before.
    computing: Mutex<(Option<Instant>, Duration)>,
}

impl Stop {
    /// Nothing is requested yet.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn new() -> Result<Self> {
        Ok(Self(Arc::new(Inner {
            request: OnceLock::new(),
            event: event()?,
            pauses: AtomicBool::new(false),
            pause: AtomicBool::new(false),
            computing: Mutex::default(),
        })))
    }

    /// From now on SIGUSR1 asks for a pause ([`Machine::pause_at`](crate::machine::Machine::pause_at)) and not for
    /// the end.
    pub fn pause_on_signal(&self) {
        self.0.pauses.store(true, Ordering::SeqCst);
    }

    /// Asks for a pause.
    pub(crate) fn ask_for_pause(&self) {
        self.0.pause.store(true, Ordering::SeqCst);
    }

    /// Whether a pause has been asked for since this was last called.
    pub(crate) fn takes_pause(&self) -> bool {
        self.0.pause.swap(false, Ordering::SeqCst)
    }

    /// Whether [`Self::takes_pause`] would say so.
    pub(crate) fn asks_for_pause(&self) -> bool {
        self.0.pause.load(Ordering::SeqCst)
    }

    /// Asks for the end; whether this is the first request. Later ones do not change the cause.
    pub fn request(&self, cause: Cause) -> bool {
        let first = self.0.request.set((cause, Instant::now())).is_ok();
        // Fails for a full counter only, which wakes as well.
        let _ = self.0.event.write(1);
        first
    }

    /// Whether the run is to end.
    #[inline]
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.request.get().is_some()
    }

    /// Why the run is to end, if it is.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.0.request.get().map(|(cause, _)| *cause)
    }

    /// How long ago that was requested, without the time of [`Stop::computing`].
    pub(crate) fn age(&self) -> Option<Duration> {
        let (_, requested) = self.0.request.get()?;
        let (since, before) = *self.0.computing.lock();
        let now = Instant::now();
        let passed = |since: Instant| now.saturating_duration_since(since.max(*requested));
        Some(passed(*requested).saturating_sub(before + since.map_or(Duration::ZERO, passed)))
    }

    /// Does what calls nothing of the host that could block, and whose time is not taken for that of one:
    /// on a host with much else to do it may take seconds.
    pub(crate) fn computing<T>(&self, compute: impl FnOnce() -> T) -> T {
        self.0.computing.lock().0 = Some(Instant::now());
        let result = compute();
        let mut computing = self.0.computing.lock();
        if let (Some(since), Some((_, requested))) = (computing.0.take(), self.0.request.get()) {
            computing.1 += since.max(*requested).elapsed();
        }
        result
    }

    /// Signalled once it is requested; not to be read.
    pub(crate) fn event(&self) -> &EventFd {
        &self.0.event
    }
}

fn event() -> Result<EventFd> {
    EventFd::new(libc::EFD_NONBLOCK)
        .map_err(|e| Error::Host(format!("no event descriptor: {e}")).because(e))
}

/// The thread that waits for the time limit and for signals. Dropping it ends it.
pub struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    stop: Stop,
    deadline: Option<Instant>,
    /// It watches the process: it takes signals, and ends the process when the run does not end.
    process: bool,
    /// The run has begun, and looks at `stop`.
    running: AtomicBool,
    over: AtomicBool,
    /// Signalled when it is over.
    wake: EventFd,
}

impl Watch {
    /// Requests the stop when `limit` is up.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn limit(stop: &Stop, limit: Duration) -> Result<Self> {
        Self::start(stop, Some(limit), false)
    }

    /// Requests the stop when `limit` is up or a signal asks the process to end. Until
    /// [`Watch::begins`] is called, and if another signal comes, the process ends at once.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn process(stop: &Stop, limit: Option<Duration>) -> Result<Self> {
        if CAUGHT.get().is_none() {
            let _ = CAUGHT.set(event()?);
        }
        let watch = Self::start(stop, limit, true)?;
        let failed =
            |number, e| Error::Host(format!("cannot catch signal {number}: {e}")).because(e);
        for number in SIGNALS {
            register_signal_handler(number, note_signal).map_err(|e| failed(number, e))?;
        }
        let number = libc::SIGXFSZ;
        register_signal_handler(number, ignore).map_err(|e| failed(number, e))?;
        Ok(watch)
    }

    fn start(stop: &Stop, limit: Option<Duration>, process: bool) -> Result<Self> {
        let shared = Arc::new(Shared {
            stop: stop.clone(),
            // A limit beyond the end of the host's clock is none.
            deadline: limit.and_then(|limit| Instant::now().checked_add(limit)),
            process,
            running: AtomicBool::new(false),
            over: AtomicBool::new(false),
            wake: event()?,
        });
        let watched = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("watch".into())
            .spawn(move || watched.watch())
            .map_err(|e| Error::Host(format!("no thread for the time limit: {e}")).because(e))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// From here on the run checks the [`Stop`], and gets a second to end by itself.
    pub fn begins(&self) {
        self.shared.running.store(true, Ordering::SeqCst);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Fails for a full counter only, which wakes as well.
        let _ = self.shared.wake.write(1);
        if let Some(thread) = self.thread.take() {
            // It has panicked, or it has not: it is over.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn watch(&self) {
        loop {
            let stop = &self.stop;
            let (time, requested) = match stop.age() {
                Some(_) if !self.process => return,
                Some(age) => (self.grace_period().saturating_sub(age), None),
                None => {
                    let left = |at: Instant| at.saturating_duration_since(Instant::now());
                    (self.deadline.map_or(LONG, left), Some(stop.event()))
                }
            };
            let signals = CAUGHT.get().filter(|_| self.process);
            wait::wait([Some(&self.wake), signals], requested, time);
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            let signal = if self.process { SIGNAL.swap(0, Ordering::SeqCst) } else { 0 };
            if signal == libc::SIGUSR1 && stop.0.pauses.load(Ordering::SeqCst) {
                stop.0.pause.store(true, Ordering::SeqCst);
            } else if signal != 0 && !stop.request(Cause::Signal(signal)) {
                give_up(Cause::Signal(signal));
            }
            if self.deadline.is_some_and(|at| at <= Instant::now()) && !stop.is_requested() {
                stop.request(Cause::Timeout);
            }
            if let Some(cause) = stop.cause()
                && self.process
                && stop.age() >= Some(self.grace_period())
            {
                give_up(cause);
            }
        }
    }

    /// How long the run may take to end after the request: nothing before it has begun.
    fn grace_period(&self) -> Duration {
        if self.running.load(Ordering::SeqCst) { GRACE_PERIOD } else { Duration::ZERO }
    }
}

/// Ends the process, whatever its other threads do.
fn give_up(cause: Cause) -> ! {
    let end = End::from(cause);
    terminal::restore();
    if let Some(text) = end.message() {
        output::say_at_most_briefly(&text);
    }
    std::process::exit(end.status().into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_counts() {
        let stop = Stop::new().unwrap();
        assert_eq!((stop.is_requested(), stop.cause()), (false, None));
        assert!(stop.request(Cause::Quit));
        assert!(!stop.request(Cause::Timeout));
        assert_eq!((stop.is_requested(), stop.cause()), (true, Some(Cause::Quit)));
    }

    /// What is computed before the request and behind it does not make it older.
    #[test]
    fn time_of_computing_does_not_count() {
        let stop = Stop::new().unwrap();
        let pause = Duration::from_millis(200);
        assert_eq!(stop.computing(|| stop.age()), None);
        let within = stop.computing(|| {
            thread::sleep(pause);
            stop.request(Cause::Quit);
            let before = stop.age();
            thread::sleep(pause);
            (before, stop.age())
        });
        let started = Instant::now();
        assert_eq!(within, (Some(Duration::ZERO), Some(Duration::ZERO)));
        assert!(stop.age().unwrap() <= started.elapsed() + pause / 2, "{:?}", stop.age());
        thread::sleep(pause);
        assert!(stop.age().unwrap() >= pause);
    }

    #[test]
    fn the_time_limit_is_a_request() {
        let stop = Stop::new().unwrap();
        let _watch = Watch::limit(&stop, Duration::from_millis(1)).unwrap();
        let started = Instant::now();
        while stop.cause() != Some(Cause::Timeout) {
            assert!(started.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_watch_that_is_dropped_requests_nothing() {
        for limit in [Duration::from_secs(3600), Duration::MAX] {
            let stop = Stop::new().unwrap();
            drop(Watch::limit(&stop, limit).unwrap());
            assert_eq!(stop.cause(), None);
        }
    }
}
