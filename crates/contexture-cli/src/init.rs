//! `contexture init`: creates the first files of a project.
//!
//! The files are templates of `contexture-files`; existing files are not
//! changed.

use crate::args::InitArgs;
use crate::output;

pub(crate) fn run(args: &InitArgs) -> anyhow::Result<()> {
    let scaffold = contexture::init(&args.dir)?;
    let mut lines = String::new();
    for path in &scaffold.written {
        lines.push_str(&format!("wrote {path}\n"));
    }
    for path in &scaffold.kept {
        lines.push_str(&format!("kept  {path} (already exists)\n"));
    }
    output::text(&lines)?;
    let here = args.dir.display();
    output::say(&format!("next: contexture assemble {here} --explain"));
    Ok(())
}
