//! Metrics of calls to summarisers and embedders over HTTP.

use std::time::Duration;

use contexture::store::ModelCall;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::latencies;

/// Metrics of model calls.
pub(crate) struct ModelMetrics {
    seconds: Family<Kind, Histogram>,
    pub(crate) in_progress: Gauge,
    pub(crate) waiting: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

impl ModelMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            seconds: Family::new_with_constructor(latencies as fn() -> Histogram),
            in_progress: Gauge::default(),
            waiting: Gauge::default(),
        };
        // A dashboard shows both from the start.
        for model in [ModelCall::Summary, ModelCall::Embedding] {
            let kind = model.name();
            drop(metrics.seconds.get_or_create(&Kind { kind }));
        }
        let help = "Duration of calls to a summariser or an embedder";
        let seconds = Family::clone(&metrics.seconds);
        registry.register_with_unit("model_call", help, Unit::Seconds, seconds);
        let help = "Calls to a summariser or an embedder in progress";
        let in_progress = metrics.in_progress.clone();
        registry.register("model_calls_in_progress", help, in_progress);
        let help = "Requests that wait until they can call a summariser or an embedder";
        registry.register("model_calls_waiting", help, metrics.waiting.clone());
        metrics
    }

    /// Records that a model has answered.
    pub(crate) fn answered(&self, model: ModelCall, time: Duration) {
        let kind = model.name();
        self.seconds
            .get_or_create(&Kind { kind })
            .observe(time.as_secs_f64());
    }
}
