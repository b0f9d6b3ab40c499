use crate::args::InitArgs;
use crate::output;

pub(crate) fn run(args: &InitArgs) -> anyhow::Result<()> {
    let scaffold = contexture::init(&args.dir)?;
    let mut lines = String::new();
    for path in &scaffold.written {
        lines.push_str(&format!("wrote {path}\n"));
    }
    for path in &scaffold.kept {
        lines.push_str(&format!("kept  {path}, which was there\n"));
    }
    output::text(&lines)?;
    let here = args.dir.display();
    output::say(&format!("next: contexture assemble {here} --explain"));
    Ok(())
}
