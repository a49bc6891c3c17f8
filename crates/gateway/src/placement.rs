//! The node of a new sandbox: among those that can have it, the better of two that are drawn by lot. So no node is flooded by gateways that
//! all saw the same report a moment ago.

use paddock_model::api::{NodeReport, NodeState};
use paddock_model::{NodeNumber, Requirement};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The words of a request about its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub tenant: String,
    pub template: Option<String>,
    pub backend: Option<String>,
    /// Names of guarantees.
    pub require: Vec<String>,
    /// Named by the caller, or where the snapshot is that it begins with.
    pub node: Option<NodeNumber>,
    pub labels: Vec<(String, String)>,
}

/// A node with a report that is about now.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    pub number: NodeNumber,
    pub report: &'a NodeReport,
    pub labels: BTreeMap<String, String>,
}

/// Positions of the candidates that can have it. The reason, if there is none, names the first condition that nobody meets.
pub fn eligible(wanted: &Wanted, candidates: &[Candidate]) -> Result<Vec<usize>, String> {
    let mut left: Vec<usize> = (0..candidates.len()).collect();
    let mut narrow = |reason: &dyn Fn() -> String, fits: &dyn Fn(&Candidate) -> bool| {
        left.retain(|place| fits(&candidates[*place]));
        if left.is_empty() { Err(reason()) } else { Ok(()) }
    };
    narrow(&|| "none has reported within the last seconds".into(), &|_| true)?;
    if let Some(number) = wanted.node {
        narrow(&|| format!("node {number} has not reported within the last seconds"), &|one| {
            one.number == number
        })?;
    }
    for (key, value) in &wanted.labels {
        narrow(&|| format!("none has the label {key}={value}"), &|one| one.labels.get(key) == Some(value))?;
    }
    if let Some(backend) = &wanted.backend {
        narrow(&|| format!("none has the backend {backend:?}"), &|one| {
            one.report.backends.contains(backend)
        })?;
    }
    let needed: Vec<&str> = wanted.require.iter().map(String::as_str).filter(|name| is_known(name)).collect();
    if !needed.is_empty() {
        let reason = || format!("none has a backend that can give {} together", needed.join(", "));
        narrow(&reason, &|one| can_give(one.report, wanted.backend.as_deref(), &needed))?;
    }
    narrow(&|| "all are cordoned or draining".into(), &|one| one.report.state == NodeState::Ready)?;
    narrow(&|| "all have as many sandboxes as they may".into(), &|one| has_room(one.report))?;
    // A template that no node names is perhaps built on first use: any node may try, and says so itself if it cannot.
    if let Some(template) = &wanted.template {
        let have: Vec<usize> = left
            .iter()
            .copied()
            .filter(|place| candidates[*place].report.templates.contains(template))
            .collect();
        if !have.is_empty() {
            left = have;
        }
    }
    Ok(left)
}

/// The order in which they are asked: the better of two by lot first, then the others, the best first. `lot` draws a number below its
/// argument.
pub fn order(
    wanted: &Wanted,
    candidates: &[Candidate],
    eligible: Vec<usize>,
    lot: &mut impl FnMut(usize) -> usize,
) -> Vec<usize> {
    let mut rest = eligible;
    if rest.is_empty() {
        return rest;
    }
    let first = rest[lot(rest.len())];
    let second = rest[lot(rest.len())];
    let chosen = match compare(wanted, &candidates[first], &candidates[second]) {
        Ordering::Greater => second,
        _ => first,
    };
    rest.retain(|place| *place != chosen);
    rest.sort_by(|one, other| compare(wanted, &candidates[*one], &candidates[*other]));
    rest.insert(0, chosen);
    rest
}

/// An unknown name is the caller's mistake, which the node that is asked explains.
fn is_known(name: &str) -> bool {
    name.parse::<Requirement>().is_ok()
}

/// A node that does not tell may be able to.
fn can_give(report: &NodeReport, backend: Option<&str>, needed: &[&str]) -> bool {
    let Some(guarantees) = &report.guarantees else { return true };
    let backends = guarantees.iter().filter(|(name, _)| backend.is_none_or(|wanted| wanted == *name));
    let mut given = backends.map(|(_, given)| given);
    given.any(|given| needed.iter().all(|needed| given.iter().any(|one| one == needed)))
}

fn has_room(report: &NodeReport) -> bool {
    report.limit.is_none_or(|limit| live(report) < limit)
}

fn live(report: &NodeReport) -> u64 {
    // A node that lies cannot make the sum overflow.
    report.live.creating.saturating_add(report.live.running).saturating_add(report.live.paused)
}

/// `Less` is better: a sandbox of the template is ready; then the larger share of free memory; then the fewer sandboxes for each processor.
fn compare(wanted: &Wanted, one: &Candidate, other: &Candidate) -> Ordering {
    let ready = |candidate: &Candidate| has_ready(wanted, candidate.report);
    let free = |candidate: &Candidate| free_share(candidate.report);
    let load =
        |candidate: &Candidate| live(candidate.report) as f64 / f64::from(candidate.report.processors.max(1));
    ready(other)
        .cmp(&ready(one))
        .then(free(other).total_cmp(&free(one)))
        .then(load(one).total_cmp(&load(other)))
}

fn has_ready(wanted: &Wanted, report: &NodeReport) -> bool {
    let Some(template) = &wanted.template else { return false };
    let serves = |tenant: &Option<String>| tenant.as_ref().is_none_or(|tenant| *tenant == wanted.tenant);
    report.pools.iter().any(|pool| pool.template == *template && serves(&pool.tenant) && pool.ready > 0)
}

/// In hundredths, so that a few bytes decide nothing. A node that lies that it has more than there is gains nothing by it.
fn free_share(report: &NodeReport) -> f64 {
    match (report.memory_available_bytes, report.memory_bytes) {
        (Some(free), Some(all)) if all > 0 => (free as f64 / all as f64).clamp(0.0, 1.0) * 100.0,
        _ => 50.0,
    }
    .round()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::tests::report;
    use paddock_model::api::NodePool;

    fn number(number: u16) -> NodeNumber {
        NodeNumber::try_from(number).expect("a number")
    }

    fn candidates(reports: &[NodeReport]) -> Vec<Candidate<'_>> {
        let of = |report: &'_ NodeReport| (number(report.node.expect("a number")), report.labels.clone());
        reports
            .iter()
            .map(|report| {
                let (number, labels) = of(report);
                Candidate { number, report, labels }
            })
            .collect()
    }

    fn found(wanted: &Wanted, reports: &[NodeReport]) -> Result<Vec<u16>, String> {
        let candidates = candidates(reports);
        let found = eligible(wanted, &candidates)?;
        Ok(found.into_iter().map(|place| candidates[place].number.get()).collect())
    }

    #[test]
    fn only_nodes_that_can_have_it_are_asked() {
        let mut reports = [report(1), report(2), report(3), report(4)];
        reports[1].state = NodeState::Cordoned;
        reports[2].limit = Some(0);
        (reports[0].backends, reports[3].backends) = (vec!["process".into()], vec!["gvisor".into()]);
        reports[3].labels.insert("zone".into(), "b".into());
        let any = Wanted::default();
        assert_eq!(found(&any, &reports), Ok(vec![1, 4]));
        let gvisor = Wanted { backend: Some("gvisor".into()), ..Wanted::default() };
        assert_eq!(found(&gvisor, &reports), Ok(vec![4]));
        let zone = Wanted { labels: vec![("zone".into(), "b".into())], ..Wanted::default() };
        assert_eq!(found(&zone, &reports), Ok(vec![4]));
        let named = |node| Wanted { node: Some(number(node)), ..Wanted::default() };
        assert!(found(&named(9), &reports).expect_err("gone").contains("node 9"));
        assert!(found(&named(2), &reports).expect_err("cordoned").contains("cordoned"));
        assert!(found(&named(3), &reports).expect_err("full").contains("as many"));
        assert!(found(&any, &[]).is_err());
    }

    #[test]
    fn guarantees_are_asked_of_nodes_that_can_give_them() {
        let mut reports = [report(1), report(2), report(3)];
        let given = |pairs: &[(&str, &[&str])]| {
            let pairs = pairs.iter().map(|(name, given)| {
                (name.to_string(), given.iter().map(ToString::to_string).collect::<Vec<_>>())
            });
            Some(pairs.collect::<BTreeMap<_, _>>())
        };
        reports[0].guarantees = given(&[("process", &["seccomp"]), ("gvisor", &["user-space-kernel"])]);
        reports[1].guarantees = given(&[("gvisor", &["seccomp", "user-space-kernel"])]);
        let require = |names: &[&str]| Wanted {
            require: names.iter().map(ToString::to_string).collect(),
            ..Wanted::default()
        };
        assert_eq!(found(&require(&["seccomp"]), &reports), Ok(vec![1, 2, 3]));
        let both = require(&["seccomp", "user-space-kernel"]);
        assert_eq!(found(&both, &reports), Ok(vec![2, 3]));
        assert_eq!(found(&require(&["no-such-thing"]), &reports), Ok(vec![1, 2, 3]));
        let of_backend = Wanted { backend: Some("process".into()), ..require(&["seccomp"]) };
        assert_eq!(found(&of_backend, &reports[..1]), Ok(vec![1]));
        let none = found(&both, &reports[..1]).expect_err("not together");
        assert!(none.contains("seccomp, user-space-kernel"));
    }

    #[test]
    fn a_template_is_looked_for_where_it_is() {
        let mut reports = [report(1), report(2)];
        reports[1].templates = vec!["mine".into()];
        let mine = Wanted { template: Some("mine".into()), ..Wanted::default() };
        assert_eq!(found(&mine, &reports), Ok(vec![2]));
        let nobodys = Wanted { template: Some("other".into()), ..Wanted::default() };
        assert_eq!(found(&nobodys, &reports), Ok(vec![1, 2]));
    }

    #[test]
    fn of_two_by_lot_the_better_is_asked_first() {
        let mut reports = [report(1), report(2), report(3)];
        reports[0].memory_available_bytes = Some(100);
        reports[1].memory_available_bytes = Some(900);
        reports[2].memory_available_bytes = Some(500);
        let candidates = candidates(&reports);
        let ordered = |lots: [usize; 2], wanted: &Wanted| {
            let mut lots = lots.into_iter();
            order(wanted, &candidates, vec![0, 1, 2], &mut |_| lots.next().expect("two lots"))
        };
        assert_eq!(ordered([0, 1], &Wanted::default()), [1, 2, 0]);
        assert_eq!(ordered([0, 2], &Wanted::default()), [2, 1, 0]);
        assert_eq!(ordered([0, 0], &Wanted::default()), [0, 1, 2]);
        let none: Vec<usize> = order(&Wanted::default(), &candidates, Vec::new(), &mut |_| 0);
        assert!(none.is_empty());
    }

    #[test]
    fn a_ready_sandbox_counts_more_than_memory_and_only_for_its_tenant() {
        let mut reports = [report(1), report(2)];
        reports[0].pools = vec![NodePool { template: "web".into(), tenant: Some("a".into()), ready: 1 }];
        reports[0].memory_available_bytes = Some(1);
        let candidates = candidates(&reports);
        let wanted = |tenant: &str| Wanted {
            template: Some("web".into()),
            tenant: tenant.into(),
            ..Wanted::default()
        };
        assert_eq!(compare(&wanted("a"), &candidates[0], &candidates[1]), Ordering::Less);
        assert_eq!(compare(&wanted("b"), &candidates[0], &candidates[1]), Ordering::Greater);
    }

    #[test]
    fn a_report_of_nonsense_moves_no_order_out_of_bounds() {
        let mut lies = report(1);
        lies.memory_available_bytes = Some(u64::MAX);
        lies.memory_bytes = Some(1);
        assert_eq!(free_share(&lies), 100.0);
        lies.memory_bytes = Some(0);
        assert_eq!(free_share(&lies), 50.0);
        lies.processors = 0;
        let reports = [lies, report(2)];
        let candidates = candidates(&reports);
        let _ = compare(&Wanted::default(), &candidates[0], &candidates[1]);
    }
}
