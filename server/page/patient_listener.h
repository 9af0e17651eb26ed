#ifndef MUSTER_SERVER_PAGE_PATIENT_LISTENER_H_
#define MUSTER_SERVER_PAGE_PATIENT_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/page/http_listener.h"
#include "server/page/http_message.h"

namespace muster {

// An HttpListener that begins as soon as it can listen at its address: its owner goes on without it
// while another process has the port.
class PatientListener {
 public:
  struct Options {
    HttpListener::Options listener;
    // Time between attempts.
    absl::Duration interval = absl::Seconds(5);
    // Receives the HOST:PORT once it is served. Called in Create, or later on another thread.
    std::function<void(const std::string& address)> served = [](const std::string&) {};
    // Receives the error of the first attempt if further ones follow. Called in Create.
    std::function<void(const absl::Status& status)> waits = [](const absl::Status&) {};
  };

  // Makes the first attempt. `service` outlives the listener. Errors are those of
  // HttpListener::Create except Unavailable, which a later attempt may not meet.
  static absl::StatusOr<std::unique_ptr<PatientListener>> Create(Options options,
                                                                 HttpService& service);
  // Ends attempts and the listener; see ~HttpListener.
  ~PatientListener();

 private:
  PatientListener(Options options, HttpService& service);

  // Makes one attempt.
  absl::Status Try();
  // Makes further attempts until one succeeds.
  void Run();

  const Options options_;
  HttpService& service_;
  // Written by Create, then by the thread alone; null: not served yet.
  std::unique_ptr<HttpListener> listener_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_PAGE_PATIENT_LISTENER_H_
