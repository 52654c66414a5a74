//! How the cost of records grows with what else is stored:
//! `cargo run --release -p windlass --example records_cost -- URL [records …]`, such as
//! `sqlite:/tmp/cost.db 1000 1000000` (`--features postgres` for a database). It fills the store that it is given.
//!
//! Half of the records are on the shelf that is measured, half on ten others. Reported: the median of single gets,
//! puts of a record that is there (each a durable commit), and pages of 50 at a random place of each order.

use serde::{Deserialize, Serialize};
use windlass::{Client, Shelf};

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

/// A place among so many, all over them.
fn place(round: u64, records: u64) -> u64 {
    round.wrapping_mul(0x9E37_79B9_7F4A_7C15) % records
}

async fn fill(client: &Client, from: u64, to: u64) {
    let shelf: Shelf<Page> = client.shelf("measured");
    for begin in (from..to).step_by(BATCH as usize) {
        let mut batch = client.batch();
        for number in begin..(begin + BATCH).min(to) {
            let other = client.shelf(&format!("other-{}", number % 10));
            let shelf = if number % 2 == 0 { &shelf } else { &other };
            // Keys come in any order.
            let key = format!("{:016x}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            batch.put(shelf, key, &page(number)).sort(number as i64).label(number / 2 % LABELS);
        }
        batch.commit().await.expect("a batch that is taken");
    }
}

/// The median of many, in microseconds.
async fn median(work: impl AsyncFn(u64)) -> f64 {
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let begun = windlass::world::monotonic_ns();
        work(round).await;
        times.push(windlass::world::monotonic_ns() - begun);
    }
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1_000.0
}

async fn measure(client: &Client, records: u64) {
    let shelf: Shelf<Page> = client.shelf("measured");
    let number = |round| place(round, records / 2) * 2;
    let key = |round| format!("{:016x}", number(round).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let get = median(async |round| drop(shelf.get(key(round)).await.expect("get").expect("a record"))).await;
    let put = median(async |round| {
        let at = number(round);
        let mut batch = client.batch();
        batch.put(&shelf, key(round), &page(at)).sort(at as i64).label(at / 2 % LABELS);
        batch.commit().await.expect("put");
    })
    .await;
    let by_key = median(async |round| {
        let prefix = &key(round)[..2];
        drop(shelf.scan().prefix(prefix).limit(50).await.expect("scan"));
    });
    let by_key = by_key.await;
    let at = |round| number(round) as i64;
    let by_sort =
        median(async |round| drop(shelf.scan().from_sort(at(round)).limit(50).await.expect("scan"))).await;
    let of_label = median(async |round| {
        drop(shelf.scan().from_sort(at(round)).descending().label("3").limit(50).await.expect("scan"));
    })
    .await;
    let newest =
        median(async |_| drop(shelf.scan().by_rev().descending().limit(50).await.expect("scan"))).await;
    let together = together(client, records).await;
    println!(
        "{records:>9} records: get {get:.0} µs, put {put:.0} µs, page by key {by_key:.0} µs, by sort {by_sort:.0} µs, \
         by sort of a label {of_label:.0} µs, newest {newest:.0} µs; {WRITERS} at once: {together:.0} puts/s"
    );
}

/// How many puts many writers of one shelf make in a second, each a durable commit.
async fn together(client: &Client, records: u64) -> f64 {
    let begun = windlass::world::monotonic_ns();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let client = client.clone();
            tokio::spawn(async move {
                let shelf: Shelf<Page> = client.shelf("measured");
                for round in 0..ROUNDS / 10 {
                    let at = place(round * WRITERS + writer, records / 2) * 2;
                    let key = format!("{:016x}", at.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                    let mut batch = client.batch();
                    batch.put(&shelf, key, &page(at)).sort(at as i64).label(at / 2 % LABELS);
                    batch.commit().await.expect("put");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer");
    }
    let seconds = (windlass::world::monotonic_ns() - begun) as f64 / 1e9;
    (WRITERS * (ROUNDS / 10)) as f64 / seconds
}

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "sqlite:records-cost.db".to_owned());
    let mut sizes: Vec<u64> = args.map(|text| text.parse().expect("a number of records")).collect();
    if sizes.is_empty() {
        sizes = vec![1_000, 1_000_000];
    }
    let client = Client::new(windlass::open(&url).await.expect("a store"));
    let mut filled = 0;
    for records in sizes {
        fill(&client, filled, records).await;
        filled = filled.max(records);
        measure(&client, records).await;
    }
}
