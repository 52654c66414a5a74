//! How the cost of records grows with what else is stored:
//! `cargo run --release -p windlass --example records_cost -- sqlite:/tmp/few.db 1000 sqlite:/tmp/many.db 1000000`
//! (`--features postgres` for databases). Each store is filled with so many records, once; then all are measured in
//! turns, so that whatever else the machine does meets them alike.
//!
//! Half of the records are on the shelf that is measured, half on ten others. Reported: medians of gets, of puts of a
//! record that is there (each a durable commit), and of pages of 50 at a random place of each order; and how many puts
//! a second 32 writers of one shelf make.

use serde::{Deserialize, Serialize};
use windlass::{Client, ScanCursor, Shelf};

const ROUNDS: u64 = 1_000;
const BATCH: u64 = 1_000;
const LABELS: u64 = 10;
const WRITERS: u64 = 32;

#[derive(Serialize, Deserialize)]
struct Page {
    number: u64,
    text: String,
}

fn page(number: u64) -> Page {
    Page { number, text: "x".repeat(200) }
}

/// Keys come in any order.
fn key_of(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

struct Subject {
    client: Client,
    shelf: Shelf<Page>,
    records: u64,
}

impl Subject {
    async fn open(url: &str, records: u64) -> Self {
        let client = Client::new(windlass::open(url).await.expect("a store"));
        let subject = Self { shelf: client.shelf("measured"), client, records };
        let filled = subject.client.shelf::<u64>("filled");
        let from = filled.get("to").await.expect("get").map_or(0, |entry| entry.value);
        for begin in (from..records).step_by(BATCH as usize) {
            subject.fill(begin, (begin + BATCH).min(records)).await;
        }
        filled.put("to", &from.max(records)).await.expect("put");
        subject
    }

    async fn fill(&self, from: u64, to: u64) {
        let mut batch = self.client.batch();
        for number in from..to {
            let other = self.client.shelf(&format!("other-{}", number % 10));
            let shelf = if number % 2 == 0 { &self.shelf } else { &other };
            batch.put(shelf, key_of(number), &page(number)).sort(number as i64).label(number / 2 % LABELS);
        }
        batch.commit().await.expect("a batch that is taken");
    }

    /// A record of the shelf, all over it; far enough from the end for a page of one label behind it.
    fn number(&self, round: u64) -> u64 {
        round.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (self.records / 2) * 2
    }

    async fn put(&self, round: u64) {
        let number = self.number(round);
        let mut batch = self.client.batch();
        batch.put(&self.shelf, key_of(number), &page(number)).sort(number as i64).label(number / 2 % LABELS);
        batch.commit().await.expect("put");
    }

    async fn ask(&self, what: What, round: u64) {
        let number = self.number(round);
        let scan = self.shelf.scan().limit(50);
        let page = match what {
            What::Get => return drop(self.shelf.get(key_of(number)).await.expect("get").expect("a record")),
            What::Put => return self.put(round).await,
            What::ByKey => scan.after(ScanCursor { at: 0, key: key_of(number) }).await,
            What::BySort => scan.from_sort(number as i64).await,
            What::OfLabel => scan.from_sort(number as i64).descending().label("3").await,
            What::Newest => scan.by_rev().descending().await,
        };
        drop(page.expect("scan"));
    }

    /// How many puts many writers make in a second.
    async fn together(&self) -> f64 {
        let begun = windlass::world::monotonic_ns();
        let writers = (0..WRITERS).map(|writer| {
            let (client, records) = (self.client.clone(), self.records);
            tokio::spawn(async move {
                let subject = Self { shelf: client.shelf("measured"), client, records };
                for round in 0..ROUNDS / 10 {
                    subject.put(round * WRITERS + writer).await;
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.expect("a writer");
        }
        let seconds = (windlass::world::monotonic_ns() - begun) as f64 / 1e9;
        (WRITERS * (ROUNDS / 10)) as f64 / seconds
    }
}

#[derive(Debug, Clone, Copy)]
enum What {
    Get,
    Put,
    ByKey,
    BySort,
    OfLabel,
    Newest,
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut subjects = Vec::new();
    for pair in args.chunks(2) {
        let [url, records] = pair else { panic!("give pairs of a URL and a number of records") };
        subjects.push(Subject::open(url, records.parse().expect("a number of records")).await);
    }
    for what in [What::Get, What::Put, What::ByKey, What::BySort, What::OfLabel, What::Newest] {
        let mut times: Vec<Vec<u64>> = vec![Vec::new(); subjects.len()];
        for round in 0..ROUNDS {
            for (subject, times) in subjects.iter().zip(&mut times) {
                let begun = windlass::world::monotonic_ns();
                subject.ask(what, round).await;
                times.push(windlass::world::monotonic_ns() - begun);
            }
        }
        for (subject, times) in subjects.iter().zip(&mut times) {
            times.sort_unstable();
            println!("{what:?} of {}: {} µs", subject.records, times[times.len() / 2] / 1_000);
        }
    }
    for subject in &subjects {
        println!("{WRITERS} writers of {}: {:.0} puts/s", subject.records, subject.together().await);
    }
}
