// The coordinator's page over a real listener: what it answers, to whom, and what it refuses.
#include "server/coordinator/page/page_service.h"

#include <google/protobuf/util/json_util.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/test_jobs.h"
#include "common/transport/descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "proto/cluster_service.pb.h"
#include "proto/job_service.pb.h"
#include "proto/page.pb.h"
#include "server/coordinator/page/ask.h"
#include "server/coordinator/page/page_test_coordinator.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

class PageServiceTest : public ::testing::Test {
 protected:
  PageServiceTest() { Start({}); }

  // Starts a coordinator on the store, and its page; what was there before ends.
  void Start(const PageRules& rules) {
    coordinator_.Start(rules);
    client_ = std::make_unique<httplib::Client>("http://" + coordinator_.address());
  }

  httplib::Result Get(const std::string& target, const httplib::Headers& headers = {}) {
    httplib::Result got = client_->Get(target.c_str(), headers);
    EXPECT_TRUE(got) << target;
    return got;
  }

  // Returns an answer that must be this message.
  template <typename Message>
  Message Read(const std::string& target) {
    const httplib::Result got = Get(target);
    EXPECT_EQ(got->status, 200) << target << ": " << got->body;
    EXPECT_EQ(got->get_header_value("Content-Type"), "application/json");
    EXPECT_EQ(got->get_header_value("Cache-Control"), "no-store");
    Message message;
    const auto parsed = google::protobuf::util::JsonStringToMessage(got->body, &message);
    EXPECT_TRUE(parsed.ok()) << got->body;
    return message;
  }

  // Returns the error's code of an answer that must be one, and checks its status.
  std::string ErrorOf(const httplib::Result& got, int status) {
    EXPECT_EQ(got->status, status) << got->body;
    v1::PageError error;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(got->body, &error).ok()) << got->body;
    message_ = error.error().message();
    EXPECT_NE(message_, "");
    return error.error().code();
  }

  // Returns all that the listener says to bytes, of which it makes a request.
  std::string Say(const std::string& bytes) const {
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const std::string& address = coordinator_.address();
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    EXPECT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    std::string heard;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = recv(socket.get(), buffer, sizeof(buffer), 0)) > 0) heard.append(buffer, got);
    return heard;
  }

  void AddDaemons() {
    coordinator_.Register(v1::SERVER, "s0", /*slots=*/0);
    coordinator_.Register(v1::WORKER, "w0", /*slots=*/2);
  }

  httplib::Result Cancel(const std::string& job, const httplib::Headers& headers,
                         const std::string& body = "{}") {
    return Post("/api/v1/jobs/" + job + "/cancel", headers, body);
  }

  httplib::Result Post(const std::string& path, httplib::Headers headers, const std::string& body) {
    std::string type = "application/json";
    if (const auto given = headers.find("Content-Type"); given != headers.end()) {
      type = given->second;
      headers.erase(given);
    }
    httplib::Result got = client_->Post(path.c_str(), headers, body, type.c_str());
    EXPECT_TRUE(got);
    return got;
  }

  // The headers with which the page cancels.
  httplib::Headers Permitted() const {
    return {{"Authorization", absl::StrCat("Bearer ", kToken)},
            {"Origin", "http://" + coordinator_.address()}};
  }

  PageTestCoordinator coordinator_;
  std::unique_ptr<httplib::Client> client_;
  // The message of the last error.
  std::string message_;
};

TEST_F(PageServiceTest, AnswersWithTheRepliesOfJobService) {
  AddDaemons();
  v1::JobSpec spec = SmallJob();
  (*spec.mutable_labels())["team"] = "a";
  const std::string job = coordinator_.Submit(spec, "r1");
  spec.set_name("other");
  spec.clear_labels();
  const std::string waiting = coordinator_.Submit(spec, "r2");

  const auto cluster = Read<v1::GetClusterReply>("/api/v1/cluster");
  ASSERT_EQ(cluster.daemons_size(), 2);
  EXPECT_EQ(cluster.daemons(0).id(), "s0");
  EXPECT_EQ(cluster.daemons(0).partitions(), 2u);
  EXPECT_EQ(cluster.daemons(1).slots_used(), 2u);

  const auto all = Read<v1::ListJobsReply>("/api/v1/jobs?view=SHORT&newestFirst=true");
  ASSERT_EQ(all.jobs_size(), 2);
  EXPECT_EQ(all.jobs(0).job_id(), waiting);
  EXPECT_FALSE(all.jobs(0).spec().has_model());
  EXPECT_EQ(Read<v1::ListJobsReply>("/api/v1/jobs?labels=team%3D*").jobs_size(), 1);
  EXPECT_EQ(Read<v1::ListJobsReply>("/api/v1/jobs?states=FAILED&states=SUCCEEDED").jobs_size(), 0);
  const auto page = Read<v1::ListJobsReply>("/api/v1/jobs?pageSize=1");
  ASSERT_EQ(page.jobs_size(), 1);
  EXPECT_EQ(
      Read<v1::ListJobsReply>("/api/v1/jobs?pageToken=" + page.next_page_token()).jobs(0).job_id(),
      waiting);

  const auto status = Read<v1::JobStatus>("/api/v1/jobs/" + job);
  EXPECT_EQ(status.state(), v1::PLACING);
  EXPECT_EQ(status.spec().model().mlp().classes(), 3u);
  EXPECT_EQ(status.tasks_size(), 2);
  EXPECT_EQ(status.partitions_size(), 2);
  EXPECT_THAT(status.given(), AllOf(testing::Contains("optimizer.learning_rate"),
                                    Not(testing::Contains("checkpoint.keep"))));

  const auto events = Read<v1::ListEventsReply>("/api/v1/jobs/" + job + "/events");
  ASSERT_GE(events.events_size(), 2);
  EXPECT_EQ(events.events(0).kind(), v1::JobEvent::KIND_UNSPECIFIED);
  EXPECT_THAT(Read<v1::MetricsChunk>("/api/v1/jobs/" + job + "/metrics").series(),
              testing::IsEmpty());
  EXPECT_EQ(Read<v1::LogChunk>("/api/v1/jobs/" + job + "/log?slot=1").text(), "");
  EXPECT_EQ(
      Read<v1::ListCheckpointsReply>("/api/v1/jobs/" + job + "/checkpoints").checkpoints_size(), 0);
  Read<v1::ListCollectivesReply>("/api/v1/jobs/" + job + "/collectives");
}

TEST_F(PageServiceTest, ReadsALogOnFromWhereItWas) {
  AddDaemons();
  const std::string job = coordinator_.Submit(SmallJob(), "r");
  for (const auto& [slot, text] : {std::pair{0u, "zero\n"}, {1u, "one\n"}}) {
    v1::AppendLogsRequest request;
    request.set_job_id(job);
    request.set_slot(slot);
    request.set_text(text);
    const auto appended = AskParked<v1::AppendLogsReply>(
        coordinator_.loop(), [request](Coordinator& c, Call<v1::AppendLogsReply> call) {
          call.done(c.daemons().AppendLogs(request));
        });
    ASSERT_TRUE(appended.ok()) << appended.status();
  }
  const std::string log = "/api/v1/jobs/" + job + "/log";
  const auto whole = Read<v1::LogChunk>(log);
  EXPECT_EQ(whole.text(), "zero\none\n");
  EXPECT_EQ(Read<v1::LogChunk>(absl::StrCat(log, "?offset=", whole.next_offset())).text(), "");
  EXPECT_EQ(Read<v1::LogChunk>(log + "?slot=1").text(), "one\n");
  EXPECT_EQ(Read<v1::LogChunk>(log + "?tailLines=1").text(), "one\n");
}

TEST_F(PageServiceTest, SaysWhatIsWrongWithACall) {
  const std::string job = coordinator_.Submit(SmallJob(), "r");
  EXPECT_EQ(ErrorOf(Get("/api/v1/jobs/nobody"), 404), "NOT_FOUND");
  EXPECT_THAT(message_, HasSubstr("nobody"));
  for (const char* part : {"events", "metrics", "log", "checkpoints", "collectives"}) {
    EXPECT_EQ(ErrorOf(Get(absl::StrCat("/api/v1/jobs/nobody/", part)), 404), "NOT_FOUND");
    EXPECT_EQ(ErrorOf(Get(absl::StrCat("/api/v1/jobs/", job, "/", part, "?follow=true")), 400),
              "INVALID_ARGUMENT");
  }
  EXPECT_EQ(ErrorOf(Get("/api/v1/jobs?filter=x"), 400), "INVALID_ARGUMENT");
  EXPECT_THAT(message_, HasSubstr("filter"));
  EXPECT_EQ(ErrorOf(Get("/api/v1/jobs?pageToken=x"), 400), "INVALID_ARGUMENT");
  EXPECT_EQ(ErrorOf(Get("/api/v1/jobs/" + job + "/metrics?maxPoints=1"), 400), "INVALID_ARGUMENT");
  EXPECT_EQ(ErrorOf(Get("/api/v1/cluster?x=1"), 400), "INVALID_ARGUMENT");
  EXPECT_EQ(ErrorOf(Get("/api/v1/jobs/" + std::string(2000, 'j')), 400), "INVALID_ARGUMENT");
}

TEST_F(PageServiceTest, ServesThePageAndItsFiles) {
  const std::string page = Get("/")->body;
  EXPECT_THAT(page, HasSubstr("<title>Muster</title>"));
  for (const char* path :
       {"/jobs/j1-abcd", "/compare?jobs=a,b", "/searches", "/searches/s1-abcd", "/cluster"}) {
    const httplib::Result got = Get(path);
    EXPECT_EQ(got->body, page) << path;
    EXPECT_EQ(got->get_header_value("Content-Type"), "text/html; charset=utf-8");
  }
  const httplib::Result script = Get("/assets/uPlot.iife.min.js");
  EXPECT_EQ(script->get_header_value("Content-Type"), "text/javascript; charset=utf-8");
  EXPECT_EQ(script->get_header_value("Cache-Control"), "no-cache");
  EXPECT_THAT(script->body, HasSubstr("var uPlot="));
  EXPECT_EQ(Get("/assets/uPlot.min.css")->get_header_value("Content-Type"),
            "text/css; charset=utf-8");
  const std::string tag = script->get_header_value("ETag");
  EXPECT_THAT(tag, StartsWith("W/\""));
  const httplib::Result again = Get("/assets/uPlot.iife.min.js", {{"If-None-Match", tag}});
  EXPECT_EQ(again->status, 304);
  EXPECT_EQ(again->body, "");
  EXPECT_EQ(Get("/", {{"If-None-Match", tag}})->status, 200);
}

TEST_F(PageServiceTest, AnAnswerThatIsUnchangedIsNotSentAgain) {
  const httplib::Result first = Get("/api/v1/jobs");
  const std::string tag = first->get_header_value("ETag");
  EXPECT_EQ(Get("/api/v1/jobs", {{"If-None-Match", tag}})->status, 304);
  coordinator_.Submit(SmallJob(), "r");
  EXPECT_EQ(Get("/api/v1/jobs", {{"If-None-Match", tag}})->status, 200);
}

TEST_F(PageServiceTest, KnowsNoOtherAddresses) {
  for (const char* path : {"/index.html",
                           "/assets",
                           "/assets/",
                           "/assets/x.js",
                           "/assets/../index.html",
                           "/assets/..%2Findex.html",
                           "/assets/%2e%2e/%2e%2e/etc/passwd",
                           "/..",
                           "/jobs",
                           "/jobs/",
                           "/jobs/a/b",
                           "/api",
                           "/api/v1",
                           "/api/v1/",
                           "/api/v2/jobs",
                           "/api/v1/jobs/",
                           "/api/v1/jobs/a/",
                           "/api/v1/jobs/a/x",
                           "/api/v1/jobs/a/events/x",
                           "/api/v1/page/x",
                           "/metrics/",
                           "/api/v1/submit"}) {
    EXPECT_EQ(Get(path)->status, 404) << path;
  }
}

TEST_F(PageServiceTest, RefusesOtherMethods) {
  const std::string job = coordinator_.Submit(SmallJob(), "r");
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"}) {
    for (const std::string& path :
         {std::string("/"), "/api/v1/jobs/" + job, std::string("/metrics"),
          std::string("/api/v1/jobs"), std::string("/nothing")}) {
      const std::string heard =
          Say(absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n\r\n"));
      EXPECT_THAT(heard, AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET, HEAD"),
                               Not(HasSubstr("Access-Control"))))
          << method << path;
    }
  }
  const std::string cancel = "/api/v1/jobs/" + job + "/cancel";
  EXPECT_EQ(Get(cancel)->status, 405);
  EXPECT_EQ(Get(cancel)->get_header_value("Allow"), "POST");
  const std::string head = Say("HEAD /api/v1/cluster HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(head, AllOf(StartsWith("HTTP/1.1 200"), testing::EndsWith("\r\n\r\n")));
}

TEST_F(PageServiceTest, RefusesRequestsThatAreNotForIt) {
  Start({.token = kToken, .hosts = {"muster.example"}});
  const auto status = [this](const std::string& head) { return Say(head + "\r\n").substr(0, 12); };
  const auto got = [&](const std::string& target, const std::string& hosts) {
    return status(absl::StrCat("GET ", target, " HTTP/1.1\r\n", hosts));
  };
  EXPECT_EQ(got("/", "Host: muster.example:7003\r\n"), "HTTP/1.1 200");
  // Whose name leads here by an attacker's DNS: not even metrics and the page's files are for it.
  for (const char* target : {"/", "/metrics", "/api/v1/page", "/api/v1/jobs", "/assets/x", "/x"}) {
    EXPECT_EQ(got(target, "Host: attacker.example\r\n"), "HTTP/1.1 403") << target;
    EXPECT_EQ(got(target, ""), "HTTP/1.1 400") << target;
    EXPECT_EQ(got(target, "Host: localhost\r\nHost: localhost\r\n"), "HTTP/1.1 400") << target;
  }
  EXPECT_EQ(status("GET / HTTP/1.0\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(got("http://localhost/", "Host: localhost\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(got("http://attacker.example/metrics", "Host: localhost\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(got("//attacker.example/metrics", "Host: localhost\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(got("*", "Host: localhost\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(got("/metrics%00", "Host: localhost\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(got("/api/v1/jobs?job=%00", "Host: localhost\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(got("/api/v1/jobs?job=%ff", "Host: localhost\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(got("/api/v1/jobs?" + std::string(7000, '&'), "Host: localhost\r\n"), "HTTP/1.1 400");
  EXPECT_THAT(got("/?" + std::string(9000, 'q'), "Host: localhost\r\n"),
              testing::AnyOf("HTTP/1.1 414", "HTTP/1.1 400", ""));
}

TEST_F(PageServiceTest, WhereAnybodyReadsNoTokenIsNeeded) {
  const auto info = Read<v1::PageInfo>("/api/v1/page");
  EXPECT_FALSE(info.cancel());
  EXPECT_FALSE(info.read_needs_token());
  EXPECT_NE(info.version(), "");
  EXPECT_GT(info.unix_ms(), 0);
  Start({.token = kToken});
  EXPECT_TRUE(Read<v1::PageInfo>("/api/v1/page").cancel());
  EXPECT_EQ(Get("/api/v1/jobs")->status, 200);
}

TEST_F(PageServiceTest, WhereNotAnybodyReadsTheTokenIsNeeded) {
  Start({.anybody_reads = false, .token = kToken});
  const std::string job = coordinator_.Submit(SmallJob(), "r");
  EXPECT_TRUE(Read<v1::PageInfo>("/api/v1/page").read_needs_token());
  for (const std::string& path :
       {std::string("/api/v1/cluster"), std::string("/api/v1/jobs"), "/api/v1/jobs/" + job,
        "/api/v1/jobs/" + job + "/metrics", "/api/v1/jobs/" + job + "/events",
        "/api/v1/jobs/" + job + "/log", "/api/v1/jobs/" + job + "/checkpoints",
        "/api/v1/jobs/" + job + "/collectives"}) {
    const httplib::Result refused = Get(path);
    EXPECT_EQ(ErrorOf(refused, 401), "UNAUTHENTICATED") << path;
    EXPECT_EQ(refused->get_header_value("WWW-Authenticate"), "Bearer");
    EXPECT_EQ(ErrorOf(Get(path, {{"Authorization", "Bearer x"}}), 401), "UNAUTHENTICATED");
    EXPECT_EQ(Get(path, {{"Authorization", absl::StrCat("Bearer ", kToken)}})->status, 200) << path;
    EXPECT_EQ(
        Say(absl::StrCat("HEAD ", path, " HTTP/1.1\r\nHost: localhost\r\n\r\n")).substr(0, 12),
        "HTTP/1.1 401");
  }
  // These show nothing of the cluster, and Prometheus asks for the last one.
  for (const char* path : {"/", "/jobs/x", "/assets/uPlot.min.css", "/metrics"}) {
    EXPECT_EQ(Get(path)->status, 200) << path;
  }
}

TEST_F(PageServiceTest, WithoutATokenFileNobodyReadsThen) {
  Start({.anybody_reads = false});
  for (const char* path : {"/api/v1/cluster", "/api/v1/jobs"}) {
    EXPECT_EQ(ErrorOf(Get(path), 403), "PERMISSION_DENIED");
    EXPECT_THAT(message_, HasSubstr("--page-token-file"));
    EXPECT_EQ(Get(path, {{"Authorization", "Bearer "}})->status, 403);
  }
  EXPECT_EQ(Get("/metrics")->status, 200);
}

TEST_F(PageServiceTest, ServesMetricsToPrometheus) {
  const httplib::Result metrics = Get("/metrics");
  EXPECT_EQ(metrics->status, 200);
  EXPECT_THAT(metrics->get_header_value("Content-Type"), StartsWith("text/plain; version=0.0.4"));
  const auto text = AskRead<v1::GetMetricsReply>(
      coordinator_.loop(), [](Coordinator& coordinator) { return coordinator.jobs().Metrics(); });
  EXPECT_THAT(metrics->body, HasSubstr("muster_"));
  EXPECT_THAT(text->text(), HasSubstr("muster_"));
}

TEST_F(PageServiceTest, CancelsAJobWithTheToken) {
  Start({.token = kToken});
  const std::string job = coordinator_.Submit(SmallJob(), "r");
  const httplib::Result done = Cancel(job, Permitted(), R"({"reason": "enough"})");
  ASSERT_EQ(done->status, 200) << done->body;
  v1::JobStatus status;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(done->body, &status).ok());
  EXPECT_EQ(status.state(), v1::CANCELLED);
  EXPECT_THAT(Read<v1::JobStatus>("/api/v1/jobs/" + job).message(), HasSubstr("enough"));
  // A repeat is no error, as it is none of CancelJob.
  EXPECT_EQ(Cancel(job, Permitted())->status, 200);
  EXPECT_EQ(ErrorOf(Cancel("nobody", Permitted()), 404), "NOT_FOUND");
}

TEST_F(PageServiceTest, DescribesAJobWithTheToken) {
  Start({.token = kToken});
  const std::string job = coordinator_.Submit(SmallJob(), "r");
  const std::string path = "/api/v1/jobs/" + job + "/describe";
  const auto description = [&] {
    return Read<v1::JobStatus>("/api/v1/jobs/" + job).spec().description();
  };
  ASSERT_EQ(Post(path, Permitted(), R"({"description": "why:\nbecause"})")->status, 200);
  EXPECT_EQ(description(), "why:\nbecause");
  // The longest one, each character of which JSON writes as two.
  const std::string longest(4096, '"');
  std::string escaped;
  for (const char c : longest) escaped += {'\\', c};
  EXPECT_EQ(Post(path, Permitted(), R"({"description": ")" + escaped + "\"}")->status, 200);
  EXPECT_EQ(description(), longest);
  EXPECT_EQ(Post(path, Permitted(), "{}")->status, 200);
  EXPECT_EQ(description(), "");
  for (const std::string& body :
       {std::string("x"), std::string(R"({"jobId": "j1", "description": "x"})"),
        R"({"description": ")" + std::string(4097, 'x') + "\"}",
        std::string(R"({"description": "\u001b[2J"})")}) {
    EXPECT_EQ(ErrorOf(Post(path, Permitted(), body), 400), "INVALID_ARGUMENT") << body;
  }
  EXPECT_EQ(ErrorOf(Post("/api/v1/jobs/nobody/describe", Permitted(), "{}"), 404), "NOT_FOUND");
  httplib::Headers stranger = Permitted();
  stranger.erase("Authorization");
  EXPECT_EQ(ErrorOf(Post(path, stranger, R"({"description": "x"})"), 401), "UNAUTHENTICATED");
  EXPECT_EQ(Get(path)->status, 405);
  EXPECT_EQ(description(), "");
}

TEST_F(PageServiceTest, HasAnIconForEveryAddress) {
  const httplib::Result icon = Get("/favicon.ico");
  EXPECT_EQ(icon->status, 200);
  EXPECT_EQ(icon->get_header_value("Content-Type"), "image/svg+xml");
  EXPECT_EQ(icon->body, Get("/assets/icon.svg")->body);
}

TEST_F(PageServiceTest, CancelsNothingForOthers) {
  const std::string open = coordinator_.Submit(SmallJob(), "r1");
  EXPECT_EQ(ErrorOf(Cancel(open, Permitted()), 403), "PERMISSION_DENIED");
  EXPECT_THAT(message_, HasSubstr("--page-token-file"));
  Start({.token = kToken});
  const std::string job = coordinator_.Submit(SmallJob(), "r2");
  const auto without = [this](const std::string& name) {
    httplib::Headers headers = Permitted();
    headers.erase(name);
    return headers;
  };
  const auto with = [&](const std::string& name, const std::string& value) {
    httplib::Headers headers = without(name);
    headers.emplace(name, value);
    return headers;
  };
  EXPECT_EQ(ErrorOf(Cancel(job, without("Authorization")), 401), "UNAUTHENTICATED");
  EXPECT_EQ(ErrorOf(Cancel(job, with("Authorization", "Bearer 0123456789abcdef")), 401),
            "UNAUTHENTICATED");
  EXPECT_EQ(ErrorOf(Cancel(job, without("Origin")), 403), "PERMISSION_DENIED");
  EXPECT_EQ(ErrorOf(Cancel(job, with("Origin", "null")), 403), "PERMISSION_DENIED");
  EXPECT_EQ(ErrorOf(Cancel(job, with("Origin", "http://attacker.example")), 403),
            "PERMISSION_DENIED");
  EXPECT_EQ(Cancel(job, with("Content-Type", "text/plain"))->status, 415);
  EXPECT_EQ(Cancel(job, with("Content-Encoding", "gzip"))->status, 415);
  for (const std::string& body :
       {std::string(), std::string("[]"), std::string("{\"x\": 1}"), std::string("{\"reason\": 1}"),
        "{\"jobId\": \"" + open + "\"}", std::string("{\"reason\": \"\xff\"}"),
        "{\"reason\": \"" + std::string(4000, 'x') + "\"}", std::string(4000, '[')}) {
    EXPECT_EQ(ErrorOf(Cancel(job, Permitted(), body), 400), "INVALID_ARGUMENT") << body;
  }
  EXPECT_EQ(Cancel(job, Permitted(), std::string(20'000, ' '))->status, 413);
  for (const std::string& each : {open, job}) {
    EXPECT_EQ(Read<v1::JobStatus>("/api/v1/jobs/" + each).state(), v1::PENDING);
  }
}

TEST_F(PageServiceTest, ARestartedCoordinatorAnswersAsBefore) {
  const std::string job = coordinator_.Submit(SmallJob(), "r");
  const std::string before = Get("/api/v1/jobs/" + job)->body;
  Start({});
  EXPECT_EQ(Get("/api/v1/jobs/" + job)->body, before);
}

TEST_F(PageServiceTest, ManyReadersAtOnce) {
  const std::string job = coordinator_.Submit(SmallJob(), "r");
  std::vector<std::thread> readers;
  std::vector<int> answered(8);
  for (int& count : answered) {
    readers.emplace_back([&, address = coordinator_.address()] {
      httplib::Client client("http://" + address);
      for (int i = 0; i < 50; ++i) {
        const httplib::Result got = client.Get(("/api/v1/jobs/" + job).c_str());
        count += got && got->status == 200;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_THAT(answered, testing::Each(50));
}

}  // namespace
}  // namespace muster
