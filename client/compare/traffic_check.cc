#include "client/compare/traffic_check.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "client/terminal/format.h"

namespace muster {
namespace {

// Returns whole bytes exactly. A mean of few bytes need not be whole.
std::string ExactBytes(double bytes) {
  const bool small_fraction = bytes < 1000 && bytes != std::floor(bytes);
  return small_fraction ? FormatNumber(bytes) : FormatCount(std::llround(bytes));
}

std::string Line(const std::string& process, const char* verb, double measured, double predicted) {
  return absl::StrCat(process, " ", verb, " ", ExactBytes(measured),
                      " bytes of dense parameters a step, predicted ", ExactBytes(predicted),
                      " bytes");
}

double At(const std::map<std::string, double>& servers, const std::string& server) {
  const auto found = servers.find(server);
  return found == servers.end() ? 0 : found->second;
}

WorkerTraffic At(const std::vector<WorkerTraffic>& workers, size_t slot) {
  return slot < workers.size() ? workers[slot] : WorkerTraffic();
}

}  // namespace

bool WorkersMatch(const MeasuredRun& run, double WorkerTraffic::*direction) {
  return std::equal(run.dense.begin(), run.dense.end(), run.predicted.workers.begin(),
                    run.predicted.workers.end(),
                    [direction](const WorkerTraffic& measured, const WorkerTraffic& predicted) {
                      return measured.*direction == predicted.*direction;
                    });
}

bool ServersMatch(const MeasuredRun& run) { return run.server_sent == run.predicted.server_sent; }

std::vector<std::string> TrafficMismatches(const MeasuredRun& run) {
  std::vector<std::string> lines;
  const std::vector<WorkerTraffic>& expected = run.predicted.workers;
  for (size_t slot = 0; slot < std::max(run.dense.size(), expected.size()); ++slot) {
    const WorkerTraffic measured = At(run.dense, slot), predicted = At(expected, slot);
    const std::string name = absl::StrCat("slot ", slot);
    if (measured.sent != predicted.sent) {
      lines.push_back(Line(name, "sends", measured.sent, predicted.sent));
    }
    if (measured.received != predicted.received) {
      lines.push_back(Line(name, "receives", measured.received, predicted.received));
    }
  }
  std::map<std::string, double> servers = run.predicted.server_sent;
  servers.insert(run.server_sent.begin(), run.server_sent.end());
  for (const auto& [server, unused] : servers) {
    const double measured = At(run.server_sent, server);
    const double predicted = At(run.predicted.server_sent, server);
    if (measured != predicted) lines.push_back(Line(server, "sends", measured, predicted));
  }
  return lines;
}

}  // namespace muster
