use std::fmt;

use serde::Serialize;

use super::table::Table;
use super::words::Span;
use super::{InstanceStatus, OverrideStatus, StageStatus};

/// Why a request would go where it goes, or nowhere.
///
/// Made without a lease, a turn of a wheel or a claim on a probing call: the picks that follow are what they would have been.
///
/// ```
/// use evenkeel::{LoadBalancer, Request, ServiceInstance};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let orders = LoadBalancer::fixed("orders", [
///     ServiceInstance::new("10.0.0.1", 8080)?,
///     ServiceInstance::new("10.0.0.2", 8080)?,
/// ])?;
/// orders.ready().await?;
/// let why = orders.explain(&Request::EMPTY);
/// let said = why.answer.instance.clone();
/// assert_eq!(said, Some(orders.try_choose(&Request::EMPTY)?.instance().to_string()));
/// println!("{why}");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Explanation {
    /// The service.
    pub service: String,
    /// When this was, on the clock on the wall: RFC 3339, in UTC.
    pub at: String,
    /// The request, as far as it says anything of itself.
    pub request: RequestSummary,
    /// What a pick would give now.
    pub answer: Answer,
    /// The version of the list; `None` before the first.
    pub version: Option<u64>,
    /// How old that list is.
    pub age_ms: Option<u64>,
    /// The list stages up to the groups, then those inside the group that the request asks for.
    pub stages: Vec<StageStatus>,
    /// What each request stage decided.
    pub narrowed: Vec<Narrowing>,
    /// The instance that a request stage wants first, if one does.
    pub wanted: Option<String>,
    /// The policy.
    pub policy: String,
    /// What the policy's scores are; `None` when it gives none.
    pub scores: Option<String>,
    /// The overrides in force.
    pub overrides: Vec<OverrideStatus>,
    /// Some picks without effect.
    pub dry_run: Option<DryRun>,
    /// The instances of the page that was asked for: who may be picked first, then who is left out.
    pub candidates: Vec<Candidate>,
    /// How many were passed over before these.
    pub before: usize,
    /// How many follow behind these.
    pub left_off: usize,
}

/// A request, as a report shows it: no header, no cookie and no query is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct RequestSummary {
    /// Its method.
    pub method: Option<String>,
    /// Its path.
    pub path: Option<String>,
    /// The hint that the caller gave.
    pub hint: Option<String>,
}

/// What a pick would give now: an instance, or an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Answer {
    /// The instance.
    pub instance: Option<String>,
    /// Why nothing can be chosen, or why it cannot be said.
    pub error: Option<String>,
    /// The pick would have a look-up started, or wait for one.
    pub look_up: Option<String>,
}

/// What a request stage decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Narrowing {
    /// The stage.
    pub stage: String,
    /// `group`, `all`, `instance` or `nothing`.
    pub decision: String,
    /// The group or the instance.
    pub name: Option<String>,
    /// How many instances that leaves, before the stages inside groups.
    pub leaves: usize,
    /// The groups there are, the first 20 by name.
    pub groups: Vec<GroupSize>,
    /// How many groups are not shown.
    pub left_off: usize,
    /// Why nothing, if that is the decision.
    pub why: Option<String>,
}

/// A group that a request can ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct GroupSize {
    /// Its name.
    pub name: String,
    /// How many instances a request is spread over there.
    pub spread: usize,
}

/// Where an instance stands for this request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Standing {
    /// It may be picked.
    Candidate,
    /// It is in the set, and out of use or tried: it is picked only if nothing better is left.
    Unfit,
    /// It is used when nobody in the set is left.
    Reserve,
    /// It is not for this request.
    LeftOut,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Candidate => "candidate",
            Self::Unfit => "unfit",
            Self::Reserve => "reserve",
            Self::LeftOut => "left out",
        })
    }
}

/// An instance, and what this request means for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Candidate {
    /// Where it stands for this request.
    pub standing: Standing,
    /// The policy's score, if it gives one.
    pub score: Option<f64>,
    /// How many picks of the dry run it got.
    pub picks: u32,
    /// How it is; its stage and reason are those of this request.
    #[serde(flatten)]
    pub status: InstanceStatus,
}

/// Picks without effect: each as if the calls before it had ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct DryRun {
    /// How many were made.
    pub picks: u32,
    /// Who got how many, the most first; 20 at most.
    pub shares: Vec<Share>,
    /// How many instances got one.
    pub instances: usize,
    /// How many found nothing.
    pub none: u32,
    /// How many had to leave the set, or take what is not in use.
    pub widened: u32,
    /// Why there was none.
    pub why_not: Option<String>,
}

/// The picks of one instance in a dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Share {
    /// The instance.
    pub instance: String,
    /// Its picks.
    pub picks: u32,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "explain {}  {}  {}", self.service, self.at, self.request)?;
        match (&self.answer.instance, &self.answer.error) {
            (Some(instance), _) => writeln!(f, "  answer    {instance}")?,
            (None, error) => writeln!(f, "  ANSWER    none: {}", error.as_deref().unwrap_or("nothing fits"))?,
        }
        if let Some(look_up) = &self.answer.look_up {
            writeln!(f, "  look-up   {look_up}")?;
        }
        if let (Some(version), Some(age)) = (self.version, self.age_ms) {
            writeln!(f, "  list      version {version}, confirmed {} ago", Span(age))?;
        }
        for one in &self.overrides {
            writeln!(f, "  OVERRIDE  {one}")?;
        }
        let stages: Vec<String> = self.stages.iter().map(ToString::to_string).collect();
        if !stages.is_empty() {
            writeln!(f, "  chain     {}", stages.join(" -> "))?;
        }
        for one in &self.narrowed {
            writeln!(f, "  request   {one}")?;
        }
        if let Some(wanted) = &self.wanted {
            writeln!(f, "  wanted    {wanted} first, unless it is out of use or was tried")?;
        }
        let scores = self.scores.as_ref().map(|scores| format!("; score: {scores}")).unwrap_or_default();
        writeln!(f, "  policy    {}{scores}", self.policy)?;
        if let Some(dry) = &self.dry_run {
            writeln!(f, "  dry run   {dry}")?;
        }
        let head =
            ["standing", "state", "instance", "zone", "score", "picks", "load", "latency", "weight", "why"];
        let mut table = Table::new(head);
        for Candidate { standing, score, picks, status } in &self.candidates {
            let why = match (&status.stage, &status.reason) {
                (Some(stage), Some(reason)) => format!("{stage}: {reason}"),
                (one, other) => one.clone().or_else(|| other.clone()).unwrap_or_default(),
            };
            table.row([
                standing.to_string(),
                status.state.to_string(),
                status.instance.clone(),
                status.zone.clone().unwrap_or_default(),
                score.map(|score| format!("{score:.2}")).unwrap_or_default(),
                if *picks > 0 { picks.to_string() } else { String::new() },
                status.load.to_string(),
                status.latency_ms.map(|ms| format!("{ms:.1} ms")).unwrap_or_default(),
                status.weight.map(|weight| weight.to_string()).unwrap_or_default(),
                why,
            ]);
        }
        write!(f, "{table}")?;
        if self.before + self.left_off > 0 {
            writeln!(f, "  ({} before these, {} behind them)", self.before, self.left_off)?;
        }
        Ok(())
    }
}

impl fmt::Display for RequestSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said: Vec<String> = [&self.method, &self.path].into_iter().flatten().cloned().collect();
        said.extend(self.hint.as_ref().map(|hint| format!("hint {hint:?}")));
        if said.is_empty() {
            f.write_str("(a request that says nothing)")
        } else {
            f.write_str(&said.join(" "))
        }
    }
}

impl fmt::Display for Narrowing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.stage, self.decision)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        if let Some(why) = &self.why {
            write!(f, ", {why}")?;
        }
        write!(f, ", leaves {}", self.leaves)?;
        if self.groups.is_empty() {
            return f.write_str("; the list has no group of it");
        }
        let groups: Vec<String> =
            self.groups.iter().map(|group| format!("{:?} {}", group.name, group.spread)).collect();
        write!(f, "; groups: {}", groups.join(", "))?;
        if self.left_off > 0 { write!(f, " and {} more", self.left_off) } else { Ok(()) }
    }
}

impl fmt::Display for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.why_not {
            return write!(f, "none: {why}");
        }
        let shares: Vec<String> =
            self.shares.iter().map(|share| format!("{} {}", share.picks, share.instance)).collect();
        write!(f, "{} picks: {}", self.picks, shares.join(", "))?;
        let more = self.instances.saturating_sub(self.shares.len());
        if more > 0 {
            write!(f, " and {more} more instances")?;
        }
        if self.none > 0 {
            write!(f, "; {} found nothing", self.none)?;
        }
        if self.widened > 0 {
            write!(f, "; {} had to leave the set or take what is not in use", self.widened)
        } else {
            Ok(())
        }
    }
}
