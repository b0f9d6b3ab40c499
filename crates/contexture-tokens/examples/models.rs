//! Writes the model table from LiteLLM's list of models:
//! `models FILE DATE SOURCE > src/models/table.tsv`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use contexture_tokens::ModelTable;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, date, source] = arguments.as_slice() else {
        eprintln!("usage: models FILE DATE SOURCE");
        return ExitCode::from(2);
    };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("error: cannot read {file}: {error}");
            return ExitCode::FAILURE;
        }
    };
    match ModelTable::import(&text, date, source) {
        Ok(table) => {
            print!("{}", table.text());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {file}: {error}");
            ExitCode::FAILURE
        }
    }
}
