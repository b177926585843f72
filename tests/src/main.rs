//! Runs reference vectors through a build and prints every difference.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use conformance::{Kind, read_vectors, run_vector};

/// Compare a build with the reference.
#[derive(Debug, Parser)]
struct Arguments {
    /// Which build.
    #[arg(long, value_enum)]
    build: Kind,
    /// Files of vectors, one JSON object a line; `.gz` as well.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (mut passed, mut failed) = (0, 0);
    for file in &arguments.files {
        let vectors = match read_vectors(file) {
            Ok(vectors) => vectors,
            Err(error) => {
                eprintln!("{}: {error}", file.display());
                return ExitCode::from(2);
            }
        };
        for (vector, line) in vectors.iter().zip(1..) {
            let name = vector["name"].as_str().unwrap_or_default();
            let differences = run_vector(arguments.build, vector).await;
            let differences = differences.map_or_else(|why| vec![why], |run| run.differences);
            if differences.is_empty() {
                passed += 1;
                continue;
            }
            failed += 1;
            for difference in differences {
                println!("{}:{line} {name}: {difference}", file.display());
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
