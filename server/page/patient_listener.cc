#include "server/page/patient_listener.h"

#include <utility>

#include "common/base/status_macros.h"

namespace muster {

absl::StatusOr<std::unique_ptr<PatientListener>> PatientListener::Create(Options options,
                                                                         HttpService& service) {
  std::unique_ptr<PatientListener> patient(new PatientListener(std::move(options), service));
  const absl::Status first = patient->Try();
  if (first.ok()) return patient;
  if (!absl::IsUnavailable(first)) return first;
  patient->options_.waits(first);
  patient->thread_ = std::thread([patient = patient.get()] { patient->Run(); });
  return patient;
}

PatientListener::PatientListener(Options options, HttpService& service)
    : options_(std::move(options)), service_(service) {}

PatientListener::~PatientListener() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status PatientListener::Try() {
  MUSTER_ASSIGN_OR_RETURN(listener_, HttpListener::Create(options_.listener, service_));
  options_.served(listener_->address());
  return absl::OkStatus();
}

void PatientListener::Run() {
  do {
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), options_.interval)) return;
  } while (!Try().ok());
}

}  // namespace muster
