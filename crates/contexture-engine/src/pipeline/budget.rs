//! The budget of a request: the window, and the reserves for the response and
//! the tools.

use contexture_core::{Budget, Tokens, grouped};
use contexture_tokens::Model;

use crate::advice::{Advice, Operation, Warning};
use crate::config::Config;
use crate::error::Error;
use crate::request::Request;
use crate::source::Facts;

/// Returns a warning when a source reserves another number of tokens for the
/// response than the configuration does.
pub(super) fn overruled_reserve(
    request: &Request,
    facts: &Facts,
    config: &Config,
) -> Option<Warning> {
    let (used, configured) = (facts.reserve_response?, config.reserve_response?);
    if request.reserve_response.is_some() || used == configured {
        return None;
    }
    let message = format!(
        "`reserve_response = {configured}` in contexture.toml has no effect: the working set \
         reserves {used} tokens for the response"
    );
    Some(Warning::new("reserve_overruled", message).advise(Advice::set("reserve_response")))
}

/// The most tokens that are reserved for the response by default. Few answers
/// are longer, and a larger reserve would cost a long conversation its history.
const MAX_DEFAULT_RESERVE: Tokens = 32_000;

/// Returns the warning about a model that is not in the model table.
pub fn unknown_model(model: &Model) -> Option<Warning> {
    if model.known {
        return None;
    }
    let (name, window) = (&model.name, model.window);
    let message = match &model.like {
        Some(like) => format!(
            "model `{name}` is not in the model table: using the values of {like}, a window of \
             {window} tokens"
        ),
        None => {
            format!(
                "model `{name}` is not in the model table: assuming a window of {window} tokens"
            )
        }
    };
    let lines = format!("add `[models.\"{name}\"]` with `window = …` to contexture.toml");
    let warning = Warning::new("unknown_model", message).advise(Advice::from(lines));
    Some(warning.advise(Advice::call(Operation::UpdateModels)))
}

pub(super) fn budget(
    request: &Request,
    facts: &mut Facts,
    model: &Model,
    margin: f64,
    warnings: &mut Vec<Warning>,
) -> Result<Budget, Error> {
    warnings.extend(unknown_model(model));
    let asked = request.max_tokens.or(facts.max_tokens);
    let asked = match (asked, &request.model, facts.budget_needed.take()) {
        (Some(asked), ..) => asked,
        // A named model sets its window.
        (None, Some(_), _) | (None, None, None) => model.window,
        (None, None, Some(error)) => return Err(error),
    };
    if asked == 0 {
        return Err(Error::input("the budget is 0 tokens")
            .at("max_tokens")
            .advise(Advice::raise("max_tokens")));
    }
    if asked > model.window && model.known {
        warnings.push(Warning::new(
            "window_exceeded",
            format!(
                "{} tokens are more than the window of {}: using {}",
                grouped(asked),
                model.name,
                grouped(model.window)
            ),
        ));
    }
    let window = if model.known {
        asked.min(model.window)
    } else {
        asked
    };
    let mut tools = request.reserve_tools.unwrap_or(0);
    // The margin for tokens that an exact counter does not see is added to the
    // tools' reserve.
    tools = tools.saturating_add((window as f64 * margin).ceil() as Tokens);
    let response = (request.reserve_response)
        .or(facts.reserve_response)
        .unwrap_or_else(|| default_reserve(model, window.saturating_sub(tools)));
    if response >= window {
        let of = match window == model.window {
            true => format!(" of {}", model.name),
            false => String::new(),
        };
        let error = Error::input(format!(
            "{} tokens are reserved for the response, but the window{of} has {} tokens",
            grouped(response),
            grouped(window)
        ));
        // The model's own window cannot be raised.
        let error = match window < model.window || !model.known {
            true => error.advise(Advice::raise("max_tokens")),
            false => error,
        };
        let error = error.advise(Advice::lower("reserve_response"));
        return Err(match request.reserve_response {
            None if facts.reserve_response.is_some() => error.advise(Advice::from(
                "change `budget.reserved_for_response` in the working set",
            )),
            _ => error.at("reserve_response"),
        });
    }
    // Tokens that a source withholds are added to the tools' reserve.
    if let Some(effective) = facts.effective {
        let left = window.saturating_sub(response).saturating_sub(tools);
        tools = tools.saturating_add(left.saturating_sub(effective));
    }
    Ok(Budget::new(window, response, tools)?)
}

/// Returns the default reserve for the response: the most that the model can
/// write, but at most a quarter of the `room` for input and response together.
fn default_reserve(model: &Model, room: Tokens) -> Tokens {
    let limit = model.max_output.unwrap_or(MAX_DEFAULT_RESERVE);
    limit.min(room / 4).min(MAX_DEFAULT_RESERVE)
}
