//! The in-process ends against the suite that every transport must pass.

use ridgeline_transport::conformance::InProcessLab;

ridgeline_transport::transport_conformance!(InProcessLab);
