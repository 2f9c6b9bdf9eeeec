//! The walk through all events: each event that counts, with each of its unit masks, is moved by some
//! program, by as much as was worked out by hand where it was; and a program of register arithmetic moves
//! nothing but what it is known to.
//!
//! Events that wait for a model are listed, and no mistake. The result is `docs/event-walk.md`;
//! `VPMU_BLESS=1 cargo test --release -p guest-tests --test event_walk` writes it.

mod expectations;
mod page;
mod programs;
mod runner;
mod selects;
mod walk;

use walk::Walk;

/// Parts whose caches, predictors and buses have models.
const PARTS: [&str; 8] = ["p55c", "ppro", "pii", "p6", "pm", "k7", "k8", "knc"];

#[test]
fn every_event_is_moved_and_the_page_is_fresh() {
    let walks: Vec<_> = std::thread::scope(|scope| {
        let threads = PARTS.map(|name| scope.spawn(move || Walk::new(name)));
        threads.into_iter().map(|thread| thread.join().expect("a walk")).collect()
    });
    for walk in &walks {
        let pending = walk.pending.len();
        println!("{}: {} live, {pending} pending", walk.part.name, walk.rows.len());
    }
    let complaints: Vec<_> = walks.iter().flat_map(Walk::complaints).collect();
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));

    let text = page::text(&walks);
    let path = format!("{}/../docs/event-walk.md", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("VPMU_BLESS").is_some() {
        let new = format!("{path}.new");
        std::fs::write(&new, &text).expect("a page");
        std::fs::rename(new, &path).expect("a page");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == text,
        "docs/event-walk.md is not what the walk finds: run \
         `VPMU_BLESS=1 cargo test --release -p guest-tests --test event_walk`"
    );
}
