// The worker's side of the control plane: a gRPC server over an EngineLoop.
// Generated and gRPC headers stay in the .cpp.
//
// Laws: a call that was received gives its request exactly one submit, also when it is cancelled
// at once; a cancelled call cancels its request; what waits for a slow reader is bounded (then the
// request is cancelled).
#pragma once
#include <memory>
#include <string>

namespace orrery::serve {

class EngineLoop;

class WorkerServer {
 public:
  // address: "unix:/path" or "127.0.0.1:0". Throws InputError when it cannot listen there.
  WorkerServer(EngineLoop& loop, const std::string& address);
  ~WorkerServer();
  // As a client dials it: with the port the system chose.
  const std::string& address() const;
  // Takes no more calls; those open get half a second to send what they have.
  void shutdown();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace orrery::serve
