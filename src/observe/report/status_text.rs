//! A status as a person reads it.

use std::fmt;

use super::table::Table;
use super::words::Span;
use super::{
    Counts, GuardStatus, ListStatus, LookUpStatus, PriorityStatus, ServiceStatus, SourceStatus, StageStatus,
    ZoneStatus,
};

impl fmt::Display for ServiceStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "service {}  {}  {}", self.service, self.at, self.verdict.join("; "))?;
        self.source(f)?;
        match &self.list {
            None => writeln!(f, "  list      none yet")?,
            Some(list) => {
                let ListStatus { version, origin, known, usable, spread, .. } = list;
                let age = Span(list.age_ms);
                writeln!(
                    f,
                    "  list      version {version}, {origin}, confirmed {age} ago: {known} known, {usable} usable, {spread} in the spread"
                )?;
                if let Some(nothing) = &list.nothing {
                    writeln!(f, "  NOTHING   {nothing}")?;
                }
            }
        }
        if let GuardStatus { on: true, for_ms, left_ms } = &self.guard {
            let span = |ms: &Option<u64>| ms.map_or_else(|| "?".to_owned(), |ms| Span(ms).to_string());
            writeln!(
                f,
                "  GUARD     the source gives an empty list since {}; believed in {}",
                span(for_ms),
                span(left_ms)
            )?;
        }
        if let Some(panic) = &self.panic {
            writeln!(f, "  PANIC     {panic}")?;
        }
        let ZoneStatus { own, mode, why } = &self.zone;
        write!(f, "  zone      {}, mode {mode}", own.as_deref().unwrap_or("not told"))?;
        writeln!(f, "{}", why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())?;
        let divided =
            self.traffic.len() > 1 || self.traffic.iter().any(|one| !one.zones.is_empty() || one.panic);
        for one in self.traffic.iter().filter(|_| divided) {
            writeln!(f, "  traffic   {one}")?;
        }
        writeln!(f, "  policy    {}", self.policy)?;
        for one in &self.overrides {
            writeln!(f, "  OVERRIDE  {one}")?;
        }
        let stages: Vec<String> = self.stages.iter().map(ToString::to_string).collect();
        writeln!(f, "  chain     {}", stages.join(" -> "))?;
        writeln!(f, "  counts    {}", self.counts)?;
        self.table(f)
    }
}

impl ServiceStatus {
    fn source(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SourceStatus { state, answered_ago_ms, failures, error, failed_ago_ms } = &self.source;
        write!(f, "  source    {state}")?;
        if let Some(ago) = answered_ago_ms {
            write!(f, ", answered {} ago", Span(*ago))?;
        }
        if *failures > 0 {
            write!(f, ", {failures} failures in a row")?;
        }
        match (error, failed_ago_ms) {
            (Some(error), Some(ago)) => write!(f, ", the last {} ago: {error}", Span(*ago))?,
            (Some(error), None) => write!(f, ": {error}")?,
            (None, Some(ago)) => write!(f, ", failed last {} ago", Span(*ago))?,
            (None, None) => {}
        }
        writeln!(f)?;
        let LookUpStatus { busy, watching, due, callers_wait, back_off_ms } = &self.look_up;
        let mut said: Vec<String> = Vec::new();
        match (watching, busy) {
            (true, _) => said.push("a watch is open".to_owned()),
            (false, true) => said.push("one runs".to_owned()),
            (false, false) if self.closed => said.push("closed".to_owned()),
            (false, false) => said.push("none runs".to_owned()),
        }
        if *due {
            said.push("the next caller starts one".to_owned());
        }
        if *callers_wait {
            said.push("callers wait".to_owned());
        }
        if let Some(left) = back_off_ms {
            said.push(format!("backing off for {}", Span(*left)));
        }
        writeln!(f, "  look-up   {}", said.join(", "))
    }

    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "state",
            "instance",
            "zone",
            "in flight",
            "load",
            "latency",
            "weight",
            "calls",
            "for",
            "left",
            "why",
        ];
        let mut table = Table::new(head);
        for one in &self.instances {
            let span = |ms: Option<u64>| ms.map(|ms| Span(ms).to_string()).unwrap_or_default();
            let why = match (&one.stage, &one.reason) {
                (Some(stage), Some(reason)) => format!("{stage}: {reason}"),
                (one, other) => one.clone().or_else(|| other.clone()).unwrap_or_default(),
            };
            table.row([
                one.state.to_string(),
                one.instance.clone(),
                one.zone.clone().unwrap_or_default(),
                one.in_flight.to_string(),
                one.load.to_string(),
                one.latency_ms.map(|ms| format!("{ms:.1} ms")).unwrap_or_default(),
                one.weight.map(|weight| weight.to_string()).unwrap_or_default(),
                one.calls.to_string(),
                span(one.for_ms),
                span(one.left_ms),
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

impl fmt::Display for PriorityStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { priority, listed, healthy, degraded, load_percent, panic, zones } = self;
        write!(f, "priority {priority}: {load_percent:.1} %, {healthy} of {listed} usable")?;
        if *degraded > 0 {
            write!(f, ", {degraded} degraded")?;
        }
        if *panic {
            f.write_str(", PANIC: all are used")?;
        }
        for (at, zone) in zones.iter().enumerate() {
            let name = if zone.zone.is_empty() { "(none)" } else { &zone.zone };
            write!(f, "{} {name} {:.1} %", if at == 0 { "; zones:" } else { "," }, zone.share_percent)?;
        }
        Ok(())
    }
}

impl fmt::Display for StageStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.stage, self.after)?;
        if self.after != self.before {
            write!(f, " of {}", self.before)?;
        }
        match &self.note {
            Some(note) => write!(f, " ({note})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} in use", self.in_use, self.known)?;
        for (count, what) in [
            (self.failing, "failing"),
            (self.skipped, "skipped"),
            (self.ejected, "ejected"),
            (self.probe_due, "due for a probing call"),
            (self.connecting, "being connected"),
            (self.probing, "probing"),
            (self.left_out, "left out"),
            (self.down, "down"),
            (self.draining, "draining"),
            (self.gone, "gone"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        write!(f, "; {} calls in flight", self.in_flight)?;
        if self.in_flight_gone > 0 {
            write!(f, ", {} of them to instances that left", self.in_flight_gone)
        } else {
            Ok(())
        }
    }
}
