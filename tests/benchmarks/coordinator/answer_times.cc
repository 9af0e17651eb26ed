#include "tests/benchmarks/coordinator/answer_times.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cluster/job_client.h"
#include "common/base/status_macros.h"
#include "common/rpc/rpc_credentials.h"
#include "httplib.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

// Repeats a call until `end`, with `pause` between an answer and the next call.
absl::Status Repeat(absl::Time end, absl::Duration pause, const std::function<absl::Status()>& call,
                    std::vector<double>& milliseconds) {
  do {
    const absl::Time begin = absl::Now();
    if (absl::Status status = call(); !status.ok()) return status;
    milliseconds.push_back(absl::ToDoubleMilliseconds(absl::Now() - begin));
    absl::SleepFor(pause);
  } while (absl::Now() < end);
  std::sort(milliseconds.begin(), milliseconds.end());
  return absl::OkStatus();
}

// The calls of one connection of a browser.
class Browser {
 public:
  explicit Browser(const std::string& page) : client_("http://" + page) {
    client_.set_keep_alive(true);
    client_.set_read_timeout(/*sec=*/20);
  }

  absl::StatusOr<std::string> Get(const std::string& target) {
    const httplib::Result got = client_.Get(target.c_str(), {{"Accept-Encoding", "gzip"}});
    if (!got) return absl::UnavailableError(absl::StrCat("no answer to ", target));
    if (got->status != 200) {
      return absl::InternalError(
          absl::StrCat(target, " was answered ", got->status, ": ", got->body));
    }
    return got->body;
  }

  // Asks for all pages of a list of jobs.
  absl::Status GetAll(const std::string& target) {
    constexpr absl::string_view kToken = "\"nextPageToken\":\"";
    std::string page = target;
    while (true) {
      MUSTER_ASSIGN_OR_RETURN(const std::string body, Get(page));
      const size_t at = body.find(std::string(kToken));
      if (at == std::string::npos) return absl::OkStatus();
      const size_t begin = at + kToken.size();
      page = absl::StrCat(target, "&pageToken=", body.substr(begin, body.find('"', begin) - begin));
    }
  }

 private:
  httplib::Client client_;
};

// The page's first view.
class Home {
 public:
  explicit Home(const std::string& page) {
    for (int i = 0; i < 4; ++i) browsers_.push_back(std::make_unique<Browser>(page));
  }

  absl::Status Refresh() {
    constexpr char kNotEnded[] = "&states=PENDING&states=PLACING&states=RUNNING&states=RECOVERING";
    absl::Status of[4];
    std::vector<std::thread> threads;
    const auto ask = [&](int i, std::function<absl::Status()> call) {
      threads.emplace_back([&of, i, call = std::move(call)] { of[i] = call(); });
    };
    ask(0, [&] { return browsers_[0]->Get("/api/v1/cluster").status(); });
    ask(1, [&] {
      return browsers_[1]->GetAll(absl::StrCat("/api/v1/jobs?view=SHORT&pageSize=500", kNotEnded));
    });
    ask(2, [&] {
      return browsers_[2]
          ->Get(
              "/api/v1/jobs?view=WHOLE&states=RUNNING&states=RECOVERING&pageSize=4"
              "&newestFirst=true")
          .status();
    });
    ask(3, [&] {
      return browsers_[3]->Get("/api/v1/jobs?view=SHORT&pageSize=50&newestFirst=true").status();
    });
    for (std::thread& thread : threads) thread.join();
    absl::Status status;
    for (const absl::Status& each : of) status.Update(each);
    return status;
  }

 private:
  std::vector<std::unique_ptr<Browser>> browsers_;
};

}  // namespace

absl::StatusOr<AnswerTimes> MeasureAnswers(const AnswerTimesOptions& options) {
  AnswerTimes times;
  absl::Status of[4];
  const absl::Time end = absl::Now() + options.duration;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    JobClient client(options.coordinator, RpcCredentials::PlainText());
    v1::JobStatus status;
    of[0] = Repeat(
        end, absl::Milliseconds(20), [&] { return client.Get(options.job, status); }, times.status);
  });
  threads.emplace_back([&] {
    JobClient client(options.coordinator, RpcCredentials::PlainText());
    v1::ListJobsRequest request;
    request.set_view(v1::ListJobsRequest::SHORT);
    of[1] = Repeat(
        end, absl::Milliseconds(200),
        [&] {
          v1::ListJobsReply reply;
          return client.List(request, reply, /*most=*/500);
        },
        times.list);
  });
  threads.emplace_back([&] {
    Home home(options.page);
    of[2] = Repeat(
        end, absl::Milliseconds(500), [&] { return home.Refresh(); }, times.page);
  });
  threads.emplace_back([&] {
    Browser browser(options.page);
    // Younger answers come from the one before.
    of[3] = Repeat(
        end, absl::Milliseconds(600), [&] { return browser.Get("/metrics").status(); },
        times.metrics);
  });
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : of) MUSTER_RETURN_IF_ERROR(status);
  return times;
}

double Quantile(const std::vector<double>& sorted, double share) {
  const auto at = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(at, 1, sorted.size()) - 1];
}

}  // namespace muster
