//! Embeds what it is given: `embed FOLDER [--threads N] [--count]`.
//!
//! Each line of stdin is a JSON array of texts, and is answered with one line: a JSON array of vectors, or
//! with `--count` only their number, for those who measure. `bench/embed/run` uses it.

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use windlass_embed::Model;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("which model? give the folder that it is in")?);
    let mut model = Model::load(&folder)?;
    let mut count = false;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => {
                model = model.with_threads(arguments.next().ok_or("--threads needs a number")?.parse()?)
            }
            "--count" => count = true,
            _ => return Err(format!("no such option: {argument}").into()),
        }
    }
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let texts: Vec<String> = serde_json::from_str(&line?)?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = model.embed(&texts)?;
        if count {
            writeln!(out, "{}", vectors.len())?;
        } else {
            writeln!(out, "{}", serde_json::to_string(&vectors)?)?;
        }
        out.flush()?;
    }
    Ok(())
}
