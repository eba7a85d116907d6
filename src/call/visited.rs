use crate::ServiceInstance;

/// The instances that a call was sent to, in order. Nearly always it is one, which needs no list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visited {
    before: Vec<ServiceInstance>,
    last: Option<ServiceInstance>,
}

impl Visited {
    /// It goes to one more.
    pub(crate) fn add(&mut self, instance: ServiceInstance) {
        self.before.extend(self.last.replace(instance));
    }

    /// The last one; who takes it takes it away.
    pub(crate) fn take_last(&mut self) -> Option<ServiceInstance> {
        self.last.take()
    }

    /// All of them.
    #[cfg(any(test, feature = "tonic014"))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ServiceInstance> {
        self.before.iter().chain(&self.last)
    }
}

impl From<Visited> for Vec<ServiceInstance> {
    fn from(visited: Visited) -> Self {
        let mut all = visited.before;
        all.extend(visited.last);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_are_there_in_order() {
        let instance = |port| ServiceInstance::new("10.0.0.1", port).unwrap();
        let mut visited = Visited::default();
        assert_eq!(visited.iter().count(), 0);
        for port in 1..=3 {
            visited.add(instance(port));
            let ports: Vec<_> = visited.iter().filter_map(ServiceInstance::port).collect();
            assert_eq!(ports, (1..=port).collect::<Vec<_>>());
        }
        assert_eq!(Vec::from(visited.clone()), [1, 2, 3].map(instance));
        assert_eq!(visited.take_last(), Some(instance(3)));
        assert_eq!(Vec::from(visited), [1, 2].map(instance));
    }
}
