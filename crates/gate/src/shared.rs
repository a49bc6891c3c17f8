//! The state that every way out of one sandbox shares: the rules, the names, the counts, and the one door to the
//! outside.

use crate::events::{Events, Subject};
use crate::flows::{Flow, Flows, Target};
use crate::meter::Meter;
use crate::metered::Metered;
use crate::names::Names;
use crate::own::is_own;
use crate::refused::Refused;
use crate::resolver::Resolver;
use crate::secrets::{Mask, Secrets};
use crate::wire::dns::{self, Code};
use crate::wire::host::Host;
use paddock_model::net::{Denial, Grant, NetOutcome, NetRules, Verdict, Way};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;

pub struct Shared {
    rules: RwLock<Arc<NetRules>>,
    pub names: Mutex<Names>,
    pub resolver: Arc<Resolver>,
    pub events: Arc<Events>,
    pub meter: Arc<Meter>,
    pub flows: Arc<Flows>,
    secrets: RwLock<Arc<Secrets>>,
    closed: watch::Sender<bool>,
}

/// A connection that was allowed, and its place among those that are open.
pub struct Upstream {
    pub stream: Metered,
    pub flow: Arc<Flow>,
}

/// To one address.
const LONGEST_CONNECT: Duration = Duration::from_secs(10);

impl Shared {
    pub fn new(
        rules: NetRules,
        resolver: Arc<Resolver>,
        events: Events,
        meter: Arc<Meter>,
        secrets: Arc<Secrets>,
    ) -> Shared {
        Shared {
            rules: RwLock::new(Arc::new(rules)),
            names: Mutex::new(Names::default()),
            resolver,
            events: Arc::new(events),
            meter,
            flows: Arc::new(Flows::default()),
            secrets: RwLock::new(secrets),
            closed: watch::Sender::new(false),
        }
    }

    pub fn rules(&self) -> Arc<NetRules> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set_rules(&self, rules: NetRules) {
        let rules = Arc::new(rules);
        let before = std::mem::replace(
            &mut *self.rules.write().unwrap_or_else(PoisonError::into_inner),
            rules.clone(),
        );
        // The requests of open connections were not judged by their methods.
        if before.methods != rules.methods && rules.methods.is_some() {
            self.flows.cut_all(&Denial::Changed);
        }
        self.flows.cut_forbidden(&rules, is_own);
    }

    /// Those of this moment: each request asks anew.
    pub fn secrets(&self) -> Arc<Secrets> {
        self.secrets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets others, for the next requests of open connections too. Returns the mask of all values that are and were.
    pub fn set_secrets(&self, secrets: Secrets) -> Mask {
        let (before, after) = {
            let mut held = self.secrets.write().unwrap_or_else(PoisonError::into_inner);
            let after = Arc::new(secrets.after(&held));
            (std::mem::replace(&mut *held, after.clone()), after)
        };
        // A connection was admitted before it asked for the secrets, so that none of the earlier ones is missed here.
        let differs = |target: &Target| before.differs_for(&after, &target.host, target.port);
        self.flows.cut_those(&Denial::Changed, differs);
        after.mask().clone()
    }

    /// Work for one client, which ends with the gate.
    pub fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let mut closed = self.closed.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = work => {}
                _ = closed.wait_for(|closed| *closed) => {}
            }
        });
    }

    /// Nothing leaves from now on, and every open connection ends.
    pub fn close(&self) {
        self.set_rules(NetRules::default());
        self.closed.send_replace(true);
    }

    /// The verdict, before anything is looked up.
    pub fn verdict(&self, target: &Target) -> Verdict {
        let rules = self.rules();
        if self.meter.is_spent(&rules) {
            return Err(Denial::Bytes);
        }
        match &target.host {
            Host::Name(name) => rules.name(name, target.port),
            Host::Address(address) => rules.address(*address, target.port, is_own(*address)),
        }
    }

    /// The one door: verdict, lookup, a look at every address, and a connection to the one that was looked at.
    pub async fn open(self: &Arc<Self>, target: Target) -> Result<Upstream, Refused> {
        let mut tried = None;
        match self.try_open(&target, &mut tried).await {
            Ok((upstream, grant)) => {
                self.events.tell(target.way, upstream.flow.subject(), NetOutcome::Allowed(grant));
                Ok(upstream)
            }
            Err(denial) => {
                self.deny(&target, tried, denial.clone());
                Err(Refused { denial, address: tried })
            }
        }
    }

    pub fn deny(&self, target: &Target, address: Option<IpAddr>, denial: Denial) {
        self.events.tell(target.way, target.subject(address), NetOutcome::Denied(denial));
    }

    async fn try_open(
        self: &Arc<Self>,
        target: &Target,
        tried: &mut Option<IpAddr>,
    ) -> Result<(Upstream, Grant), Denial> {
        let grant = self.verdict(target)?;
        let flow = Arc::new(self.flows.admit(target.clone(), &self.events)?);
        let addresses = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolver.addresses(name).await,
        };
        let mut denial = Denial::NoAddress;
        for address in addresses {
            let address = address.to_canonical();
            *tried = Some(address);
            // The rules of this moment: a lookup takes time, and they may have changed.
            if let Err(refused) = self.rules().resolved(address, target.port, is_own(address)) {
                denial = refused;
                continue;
            }
            let connect = TcpStream::connect(SocketAddr::new(address, target.port));
            if let Ok(Ok(stream)) = tokio::time::timeout(LONGEST_CONNECT, connect).await {
                let _ = stream.set_nodelay(true);
                flow.connected(address);
                // The rules may have changed while it connected.
                self.verdict(target)?;
                let stream = Metered::new(stream, self.clone(), flow.clone());
                return Ok((Upstream { stream, flow }, grant));
            }
            denial = Denial::Unreachable;
        }
        Err(denial)
    }

    /// The answer to a message for a name server; empty where none is due.
    pub fn answer_dns(&self, message: &[u8]) -> Vec<u8> {
        let query = match dns::parse(message) {
            Ok(query) => query,
            Err(answer) => return answer,
        };
        let Some(name) = &query.name else {
            self.events.tell(Way::Dns, Subject::default(), NetOutcome::Denied(Denial::NotAName));
            return query.refusal(Code::NoSuchName);
        };
        let subject = Subject { name: Some(name.clone()), ..Subject::default() };
        match self.rules().resolves(name) {
            Err(denial) => {
                self.events.tell(Way::Dns, subject, NetOutcome::Denied(denial));
                query.refusal(Code::NoSuchName)
            }
            Ok(grant) => {
                self.events.tell(Way::Dns, subject, NetOutcome::Allowed(grant));
                let addresses = self.names.lock().unwrap_or_else(PoisonError::into_inner).addresses(name);
                query.answer(&addresses)
            }
        }
    }

    /// The host that a program inside means: an address of ours stands for the name that was asked for.
    pub fn meant(&self, host: Host) -> Host {
        let Host::Address(address) = host else { return host };
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.name(address).map_or(Host::Address(address), Host::Name)
    }
}
