//! Calibration of a model's token counts by recorded usage.
//!
//! Providers report the number of tokens of a request. The ratio of their count
//! to ours is stored for each model, and a high quantile of it is applied. An
//! estimate is multiplied by it. An exact count is unchanged, but does not
//! include the tokens that a provider adds around messages; that fraction of
//! the window is kept free instead.

use contexture_store::{Sample, Samples, TurnId, TurnSample};
use contexture_tokens::{Model, Models, Tokenizer};

use crate::error::Error;

/// With fewer samples than this, the factor is raised by a step, because the
/// next ratio may be a little higher.
const FEW_SAMPLES: usize = 3;

/// The number of latest samples that are used.
pub(crate) const MOST_SAMPLES: usize = 200;

/// The part of the samples that are to fit.
const QUANTILE: f64 = 0.95;

/// Factors change in steps, so that cached counts made with one stay valid for
/// long.
const STEP: f64 = 0.05;

/// Smaller requests are ignored: the tokens that a provider adds to each
/// request would look like a factor.
const LEAST_TOKENS: u64 = 1_000;

/// A ratio outside this range cannot belong to the same request: no two
/// tokenizers differ so much.
const LEAST_RATIO: f64 = 0.4;
const MOST_RATIO: f64 = 5.0;

/// Returns the name under which samples of a model are stored: its own, without
/// the vendor.
fn key(model: &Model) -> String {
    let name = model.name.rsplit('/').next().unwrap_or(&model.name);
    name.to_ascii_lowercase()
}

/// Returns the name of the counter whose counts are compared. Calibration does
/// not change it.
fn counter(model: &Model) -> String {
    match &model.tokenizer {
        Tokenizer::OpenAi(encoding) | Tokenizer::Scaled(encoding, _) => {
            format!("{encoding:?}").to_ascii_lowercase()
        }
        Tokenizer::HuggingFace(path) => path.display().to_string(),
        Tokenizer::Estimate(_) => "estimate".to_owned(),
    }
}

/// Returns the names under which samples of a model are stored: the model's and
/// the counter's.
pub(crate) fn names(model: &Model) -> (String, String) {
    (key(model), counter(model))
}

/// Applies the calibration to `model`. Returns the fraction of the window, from
/// 0 to 1, that must be kept free for an exact counter.
///
/// A model without samples uses those of its siblings.
pub fn apply(store: &dyn Samples, models: &Models, model: &mut Model) -> Result<f64, Error> {
    let (key, counter) = (key(model), counter(model));
    let mut samples = store.samples(&key, &counter, MOST_SAMPLES)?;
    if samples.is_empty() {
        for other in store.sampled_models(&counter)? {
            if models.are_siblings(&key, &other) {
                samples.extend(store.samples(&other, &counter, MOST_SAMPLES)?);
            }
        }
    }
    let Some(ratio) = high_ratio(&samples) else {
        return Ok(0.0);
    };
    if model.tokenizer.factor().is_some() {
        // Samples are stored as counts with a factor of one.
        let steps = (ratio / STEP).ceil() + f64::from(samples.len() < FEW_SAMPLES);
        let factor = (steps * STEP).clamp(1.0, 10.0);
        model.tokenizer = (model.tokenizer).with_factor((factor * 100.0).round() / 100.0);
        return Ok(0.0);
    }
    Ok((1.0 - 1.0 / ratio.max(1.0)).clamp(0.0, 0.5))
}

/// Returns the sample of a request after `parent` that we counted as `counted`
/// and the provider as `actual`. Returns `None` if the request is too small or
/// the ratio is implausible.
pub fn sample(
    model: &Model,
    parent: Option<TurnId>,
    counted: u64,
    actual: u64,
) -> Option<TurnSample> {
    // A count that includes a factor is stored without it.
    let counted = match model.tokenizer.factor() {
        Some(factor) => (counted as f64 / factor.max(1.0)).round() as u64,
        None => counted,
    };
    let ratio = actual as f64 / counted as f64;
    if counted < LEAST_TOKENS || !(LEAST_RATIO..=MOST_RATIO).contains(&ratio) {
        return None;
    }
    Some(TurnSample {
        parent,
        model: key(model),
        counter: counter(model),
        sample: Sample { counted, actual },
    })
}

/// Returns a high quantile of the ratios of the samples.
fn high_ratio(samples: &[Sample]) -> Option<f64> {
    let mut ratios: Vec<f64> = samples
        .iter()
        .filter(|sample| sample.counted > 0)
        .map(|sample| sample.actual as f64 / sample.counted as f64)
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = (ratios.len() as f64 * QUANTILE).ceil() as usize;
    ratios.get(at.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_high_quantile_not_the_mean() {
        let sample = |actual| Sample {
            counted: 1000,
            actual,
        };
        assert_eq!(high_ratio(&[]), None);
        assert_eq!(high_ratio(&[sample(1500)]), Some(1.5));
        let few = [sample(1200), sample(1300), sample(1250)];
        assert_eq!(high_ratio(&few), Some(1.3));
        let mut many: Vec<Sample> = (0..99).map(|i| sample(1000 + i)).collect();
        many.push(sample(9000));
        let ratio = high_ratio(&many).unwrap_or_default();
        assert!((1.09..1.1).contains(&ratio), "{ratio}");
    }
}
