//! The tool `fit`.

use crate::tool::{Answer, Effect, Tools};
use contexture_api::fit::{self, FitBody, FitResponse};
use contexture_api::{Problem, Tenant};

pub(super) fn add(tools: &mut Tools) {
    tools.add::<FitResponse, FitBody>(
        "fit",
        (
            "Make a request fit",
            "Returns a provider's own request (Anthropic, OpenAI or Gemini) within a number of \
             tokens: older steps get a summary, and long tool results are cut. Call it before you \
             send a request that may be too long.",
        ),
        Effect::Reads,
        fit,
    );
}

fn fit(tenant: &Tenant, body: FitBody) -> Result<Answer, Problem> {
    let fitted = fit::fit(tenant, body)?;
    Ok(Answer::new(fitted.request.as_str().to_owned(), &fitted))
}
