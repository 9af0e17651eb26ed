#ifndef MUSTER_CLIENT_COMMANDS_COMMANDS_H_
#define MUSTER_CLIENT_COMMANDS_COMMANDS_H_

namespace CLI {
class App;
}  // namespace CLI

namespace muster {

class Session;

// Each function adds one command to `muster`: its options, its help with an example, and what it
// does. The session outlives the parsing.

// Commands for a cluster: cluster/.
void AddUp(CLI::App& app, Session& session);
void AddDown(CLI::App& app, Session& session);
void AddSupervise(CLI::App& app, Session& session);
void AddCluster(CLI::App& app, Session& session);
void AddDoctor(CLI::App& app, Session& session);
void AddDrain(CLI::App& app, Session& session);
void AddRebalance(CLI::App& app, Session& session);
void AddMetrics(CLI::App& app, Session& session);
void AddBench(CLI::App& app, Session& session);
void AddChaos(CLI::App& app, Session& session);

// Commands that make and end jobs: jobs/.
void AddInit(CLI::App& app, Session& session);
void AddValidate(CLI::App& app, Session& session);
void AddPlan(CLI::App& app, Session& session);
void AddSubmit(CLI::App& app, Session& session);
void AddCancel(CLI::App& app, Session& session);
void AddDelete(CLI::App& app, Session& session);
void AddCheckpoint(CLI::App& app, Session& session);
void AddCompare(CLI::App& app, Session& session);
void AddProve(CLI::App& app, Session& session);
void AddDemo(CLI::App& app, Session& session);

// Commands that show what jobs do: look/.
void AddList(CLI::App& app, Session& session);
void AddStatus(CLI::App& app, Session& session);
void AddWatch(CLI::App& app, Session& session);
void AddTop(CLI::App& app, Session& session);
void AddDescribe(CLI::App& app, Session& session);
void AddLogs(CLI::App& app, Session& session);
void AddEvents(CLI::App& app, Session& session);
void AddHistory(CLI::App& app, Session& session);
void AddTensorboard(CLI::App& app, Session& session);
void AddReport(CLI::App& app, Session& session);
void AddTrace(CLI::App& app, Session& session);

// Commands for data, weights and trained models: weights/.
void AddTokenizer(CLI::App& app, Session& session);
void AddData(CLI::App& app, Session& session);
void AddImport(CLI::App& app, Session& session);
void AddExport(CLI::App& app, Session& session);
void AddEvaluate(CLI::App& app, Session& session);
void AddPredict(CLI::App& app, Session& session);
void AddGenerate(CLI::App& app, Session& session);

// Commands for the command line itself. `app` is the app of `muster`, and outlives the parsing.
void AddHelp(CLI::App& app, Session& session);
void AddCompletion(CLI::App& app, Session& session);
void AddVersion(CLI::App& app, Session& session);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_COMMANDS_H_
