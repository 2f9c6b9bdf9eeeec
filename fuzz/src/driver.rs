//! The small driver: replays inputs from files and generates them, on a stable compiler.

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::random::Random;
use crate::{find, instructions, linux, loaders, machine, pmu};

/// Inputs that are there before one of them is played.
const TOGETHER: u64 = 4096;

/// What the bytes of an input are to the product, and what has to hold.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What it holds against what, in a line.
    pub about: &'static str,
    /// That the host has what it needs, or what is missing.
    pub needs: fn() -> Result<(), String>,
    /// Plays an input: how many operations it had, or what does not hold.
    pub play: fn(&[u8]) -> Result<usize, String>,
    /// An input in words.
    pub words: fn(&[u8]) -> String,
    /// A generated input.
    pub input: fn(&mut Random) -> Vec<u8>,
    /// Inputs of one number are played faster one after the other: the host's caches still have what they need.
    pub group: fn(&[u8]) -> usize,
}

/// All targets.
pub const TARGETS: [Target; 6] = [
    Target {
        name: "pmu",
        about: "operations on a PMU, against a second model written from the manuals",
        needs: || Ok(()),
        play: |bytes| pmu::play(bytes).map_err(|difference| difference.to_string()),
        words: pmu::words,
        input: pmu::input,
        group: pmu::group,
    },
    Target {
        name: "instructions",
        about: "code in every mode, stepped, translated, uncached, counted and modelled",
        needs: || Ok(()),
        play: instructions::play,
        words: instructions::words,
        input: instructions::input,
        group: |_| 0,
    },
    Target {
        name: "machine",
        about: "a guest's operations on its PMU and devices, in blocks, stepped and in pieces",
        needs: || Ok(()),
        play: machine::play,
        words: machine::words,
        input: machine::input,
        group: machine::group,
    },
    Target {
        name: "kvm",
        about: "the same without what depends on time, on KVM and on the software engine",
        needs: machine::kvm::needs,
        play: machine::kvm::play,
        words: machine::kvm::words,
        input: machine::input,
        group: machine::group,
    },
    Target {
        name: "loaders",
        about: "files, scripts and words through the readers of what comes from outside",
        needs: || Ok(()),
        play: loaders::play,
        words: loaders::words,
        input: loaders::input,
        group: |_| 0,
    },
    Target {
        name: "driver",
        about: "Linux's driver of the PMU, on hardware that lies",
        needs: || linux::kernel().map(drop),
        play: linux::play,
        words: linux::words,
        input: linux::input,
        group: |_| 0,
    },
];

impl Target {
    /// The target of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Plays an input. That the product panics is a failure as well.
    ///
    /// # Errors
    /// What does not hold.
    pub fn play(&self, bytes: &[u8]) -> Result<usize, String> {
        panic::catch_unwind(AssertUnwindSafe(|| (self.play)(bytes))).unwrap_or_else(|panic| {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("panicked: {}", message.unwrap_or("without a word")))
        })
    }

    /// As libFuzzer wants it.
    ///
    /// # Panics
    /// If something does not hold, with the input in words.
    pub fn play_or_panic(&self, bytes: &[u8]) {
        if let Err(failure) = (self.play)(bytes) {
            panic!("{}", self.report(bytes, &failure));
        }
    }

    /// An input in words, and what does not hold.
    #[must_use]
    pub fn report(&self, bytes: &[u8], failure: &str) -> String {
        let words = (self.words)(bytes);
        format!("{}\n{failure}", words.trim_end())
    }

    /// Plays the files, and those in the directories, in the order of their names: how many there are, and how many
    /// operations they have.
    ///
    /// # Errors
    /// A file that cannot be read, or the first that fails.
    pub fn replay(&self, paths: &[PathBuf]) -> Result<(usize, usize), String> {
        let (mut files, mut operations) = (Vec::new(), 0);
        for path in paths {
            files_of(path, &mut files).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        for file in &files {
            let name = file.display();
            let bytes = fs::read(file).map_err(|error| format!("{name}: {error}"))?;
            // libFuzzer and AFL++ would take its first line for a part of the input, and play another one.
            if find::parse(&bytes).is_some() {
                return Err(format!(
                    "{name}: a find, with a line in front of the input: see `replay`"
                ));
            }
            let played = self.play(&bytes);
            operations +=
                played.map_err(|failure| format!("{name}: {}", self.report(&bytes, &failure)))?;
        }
        Ok((files.len(), operations))
    }
}

/// The files of a directory and those below, by name; or the file.
pub(crate) fn files_of(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        found.push(entry?.path());
    }
    found.sort();
    found.iter().try_for_each(|path| files_of(path, files))
}

/// How long inputs are generated.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// So many inputs, each job the same share of them.
    pub runs: u64,
    /// No longer than this.
    pub time: Option<Duration>,
    /// Where the inputs of the first job begin; the next one has the next seed.
    pub seed: u64,
    /// Threads.
    pub jobs: u64,
}

/// An input that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    /// The input.
    pub bytes: Vec<u8>,
    /// What does not hold.
    pub failure: String,
    /// The seed of its job, and which of its inputs it is.
    pub origin: (u64, u64),
}

/// What a campaign played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Inputs.
    pub inputs: u64,
    /// Their operations.
    pub operations: u64,
}

/// What the threads of a campaign share.
#[derive(Default)]
struct Shared {
    inputs: AtomicU64,
    operations: AtomicU64,
    stop: AtomicBool,
}

impl Target {
    /// Plays generated inputs until one fails. `progress` is told every second how many there have been.
    ///
    /// # Errors
    /// The input that fails; of several jobs, of the first that found one.
    pub fn campaign(
        &self,
        campaign: Campaign,
        mut progress: impl FnMut(Played, Duration),
    ) -> Result<Played, Box<Find>> {
        let (shared, begun) = (Shared::default(), Instant::now());
        let (finds, found) = mpsc::channel();
        let outcome = thread::scope(|scope| {
            for job in 0..campaign.jobs.max(1) {
                let (shared, finds) = (&shared, finds.clone());
                scope.spawn(move || {
                    if let Some(find) = self.job(campaign, job, begun, shared) {
                        shared.stop.store(true, Ordering::Relaxed);
                        // Nobody listens any more where another job has found something.
                        let _ = finds.send(find);
                    }
                });
            }
            drop(finds);
            loop {
                match found.recv_timeout(Duration::from_secs(1)) {
                    Ok(find) => break Err(Box::new(find)),
                    Err(mpsc::RecvTimeoutError::Disconnected) => break Ok(()),
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        progress(shared.played(), begun.elapsed());
                    }
                }
            }
        });
        outcome.map(|()| shared.played())
    }

    /// The inputs of one job.
    fn job(&self, campaign: Campaign, job: u64, begun: Instant, shared: &Shared) -> Option<Find> {
        let jobs = campaign.jobs.max(1);
        let runs = campaign.runs / jobs + u64::from(job < campaign.runs % jobs);
        let seed = campaign.seed.wrapping_add(job);
        let mut random = Random::new(seed);
        for (run, bytes) in self.inputs(&mut random, runs) {
            let late = campaign.time.is_some_and(|time| begun.elapsed() >= time);
            if late || shared.stop.load(Ordering::Relaxed) {
                break;
            }
            match self.play(&bytes) {
                Ok(operations) => {
                    shared.operations.fetch_add(operations as u64, Ordering::Relaxed);
                }
                Err(failure) => return Some(Find { bytes, failure, origin: (seed, run) }),
            }
            shared.inputs.fetch_add(1, Ordering::Relaxed);
        }
        None
    }

    /// The first so many inputs, each with its number, in the order in which they are played: of some thousands at a
    /// time, those of one group one after the other.
    pub fn inputs(&self, random: &mut Random, runs: u64) -> impl Iterator<Item = (u64, Vec<u8>)> {
        (0..runs).step_by(TOGETHER as usize).flat_map(move |first| {
            let numbers = first..runs.min(first.saturating_add(TOGETHER));
            let mut part: Vec<_> = numbers.map(|number| (number, (self.input)(random))).collect();
            part.sort_by_cached_key(|(_, bytes)| (self.group)(bytes));
            part
        })
    }

    /// A shorter input that fails as well, with fewer bytes that are not zero.
    #[must_use]
    pub fn minimised(&self, bytes: &[u8]) -> Vec<u8> {
        let fails = |bytes: &[u8]| self.play(bytes).is_err();
        let mut least = bytes.to_vec();
        let mut piece = least.len().next_power_of_two();
        while piece > 0 {
            let mut at = 0;
            while at < least.len() {
                let end = (at + piece).min(least.len());
                let shorter = [&least[..at], &least[end..]].concat();
                if fails(&shorter) {
                    least = shorter;
                } else {
                    at = end;
                }
            }
            piece /= 2;
        }
        for at in 0..least.len() {
            let was = std::mem::take(&mut least[at]);
            if was != 0 && !fails(&least) {
                least[at] = was;
            }
        }
        least
    }
}

impl Shared {
    fn played(&self) -> Played {
        Played {
            inputs: self.inputs.load(Ordering::Relaxed),
            operations: self.operations.load(Ordering::Relaxed),
        }
    }
}
