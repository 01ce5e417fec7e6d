#include "engine/comm/links.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/comm/announcement.h"
#include "engine/comm/mpi_streams.h"
#include "engine/comm/shm_streams.h"
#include "engine/comm/stream_link.h"
#include "engine/comm/tcp_streams.h"
#include "engine/comm/wire_bytes.h"
#include "kernels/device/plugin.h"

namespace plait {
namespace {

/// What one process tells the others of a preparation that each makes alone.
struct Report {
  std::string text;            ///< what the others need
  std::optional<Error> error;  ///< why there is nothing
};

class LinkMaker {
 public:
  LinkMaker(World& world, const LinkServices& services) : world_(world), services_(services) {}

  void attach();

 private:
  std::vector<Report> share(const std::string& name, const Report& own);
  [[noreturn]] void refuse(const std::vector<Report>& reports);
  void agree_on_transport();
  bool is_one_host() const;
  std::vector<RemoteRanks> others() const;
  std::unique_ptr<Streams> make();
  std::unique_ptr<Streams> make_tcp();
  std::unique_ptr<Streams> make_shm(std::vector<Report>* failed);
  std::unique_ptr<Streams> make_mpi();
  size_t own() const { return static_cast<size_t>(world_.own_peer()); }
  size_t processes() const { return world_.peers().size(); }
  void note(LogLevel level, const std::string& text);

  World& world_;
  const LinkServices& services_;
};

/// Runs `body`, which gives what the others need; its error becomes the report.
template <class Body>
Report report_of(Body body) {
  try {
    return {body(), std::nullopt};
  } catch (const Error& error) {
    return {"", error};
  }
}

bool all_done(const std::vector<Report>& reports) {
  return std::none_of(reports.begin(), reports.end(), [](const Report& r) { return r.error; });
}

std::vector<Report> LinkMaker::share(const std::string& name, const Report& own) {
  ByteWriter out;
  out.number(static_cast<uint8_t>(own.error.has_value()));
  out.text(own.error ? encode_error(*own.error) : own.text);
  std::vector<Report> reports;
  for (const std::string& bytes :
       world_.exchange("link/" + name, out.bytes(), world_.options().init_ms)) {
    ByteReader in(bytes);
    const bool is_error = in.number<uint8_t>() != 0;
    const std::string text(in.text());
    Report report{text, std::nullopt};
    if (is_error) report.error = Error("invariant", "an error of another process is not readable");
    if (is_error) decode_error(text, &*report.error);
    reports.push_back(std::move(report));
  }
  return reports;
}

/// The same error in all processes: that of the first which failed.
void LinkMaker::refuse(const std::vector<Report>& reports) {
  for (size_t i = 0; i < reports.size(); ++i) {
    if (!reports[i].error) continue;
    const int64_t rank = world_.peers()[i].first_rank;
    throw Error(*reports[i].error)
        .with("rank", rank)
        .with("network.transport", world_.options().transport)
        .rank(static_cast<int32_t>(rank))
        .subsystem("comm");
  }
  throw Error("invariant", "a refusal without a reason");
}

void LinkMaker::agree_on_transport() {
  const std::string& wanted = world_.options().transport;
  const std::vector<Report> reports = share("transport", {wanted, std::nullopt});
  for (size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].text == reports[0].text) continue;
    throw Error("mismatch", "processes are to move data in different ways")
        .with("field", "network.transport")
        .with("rank", world_.peers()[0].first_rank)
        .with("value", reports[0].text)
        .with("other_rank", world_.peers()[i].first_rank)
        .with("other_value", reports[i].text)
        .subsystem("comm");
  }
  if (wanted == "auto" || wanted == "tcp" || wanted == "shm" || wanted == "mpi") return;
  throw Error("argument", "no such transport")
      .with("key", "network.transport")
      .with("value", wanted)
      .subsystem("comm");
}

bool LinkMaker::is_one_host() const {
  const std::vector<WorldPeer>& peers = world_.peers();
  return std::all_of(peers.begin(), peers.end(),
                     [&](const WorldPeer& peer) { return peer.host == peers[0].host; });
}

std::vector<RemoteRanks> LinkMaker::others() const {
  std::vector<RemoteRanks> others;
  for (size_t i = 0; i < processes(); ++i) {
    const WorldPeer& peer = world_.peers()[i];
    if (i != own()) others.push_back({peer.first_rank, peer.local_ranks});
  }
  return others;
}

std::unique_ptr<Streams> LinkMaker::make_tcp() {
  std::vector<std::unique_ptr<Socket>> sockets;
  for (size_t i = 0; i < processes(); ++i) {
    if (i == own()) continue;
    sockets.push_back(world_.take_data_socket(static_cast<int64_t>(i)));
    check(sockets.back() != nullptr, "a connection for data was taken twice");
  }
  return std::make_unique<TcpStreams>(services_.net, std::move(sockets));
}

/// Null, and why, when a process lacks the memory or cannot reach that of another.
std::unique_ptr<Streams> LinkMaker::make_shm(std::vector<Report>* failed) {
  const int64_t bytes = ShmStreams::segment_bytes(static_cast<int64_t>(processes()));
  std::vector<std::unique_ptr<SharedSegment>> segments(processes());
  const std::vector<Report> names = share("segments", report_of([&] {
                                            segments[own()] = services_.memory.create(bytes);
                                            return segments[own()]->name();
                                          }));
  if (!all_done(names)) return *failed = names, nullptr;
  const std::vector<Report> mapped = share("mapped", report_of([&] {
                                             for (size_t i = 0; i < processes(); ++i) {
                                               if (i == own()) continue;
                                               segments[i] =
                                                   services_.memory.open(names[i].text, bytes);
                                             }
                                             return std::string();
                                           }));
  segments[own()]->unlink();
  if (!all_done(mapped)) return *failed = mapped, nullptr;
  return std::make_unique<ShmStreams>(services_.memory, world_.own_peer(), std::move(segments));
}

std::unique_ptr<Streams> LinkMaker::make_mpi() {
  MpiProcess process;
  const std::string& given = services_.plugin_directory;
  const std::vector<Report> places =
      share("mpi", report_of([&] {
              process = start_mpi(given.empty() ? library_directory() : given);
              return std::to_string(process.place.rank) + "/" + std::to_string(process.place.size);
            }));
  if (!all_done(places)) refuse(places);
  std::vector<int32_t> ranks;
  std::set<std::string> seen;
  for (size_t i = 0; i < places.size(); ++i) {
    const std::string& text = places[i].text;
    ranks.push_back(static_cast<int32_t>(std::stol(text)));
    const bool is_same_size =
        text.substr(text.find('/')) == places[0].text.substr(places[0].text.find('/'));
    if (seen.insert(text).second && is_same_size) continue;
    throw Error("topology", "the processes were not started by one MPI launcher")
        .with("rank", world_.peers()[i].first_rank)
        .with("mpi", text)
        .with("other_mpi", places[0].text)
        .subsystem("comm");
  }
  return std::make_unique<MpiStreams>(*process.plugin, ranks, world_.own_peer());
}

std::unique_ptr<Streams> LinkMaker::make() {
  const std::string& wanted = world_.options().transport;
  if (wanted == "mpi") return make_mpi();
  if (wanted == "shm" && !is_one_host()) {
    throw Error("topology", "shared memory reaches the processes of one machine only")
        .with("key", "network.transport")
        .with("value", wanted)
        .subsystem("comm");
  }
  if (wanted == "shm" || (wanted == "auto" && is_one_host())) {
    std::vector<Report> failed;
    if (std::unique_ptr<Streams> streams = make_shm(&failed)) return streams;
    if (wanted == "shm") refuse(failed);
    for (const Report& report : failed) {
      if (!report.error) continue;
      note(LogLevel::kWarning, "no shared memory, so TCP: " + report.error->message());
    }
  }
  return make_tcp();
}

void LinkMaker::attach() {
  agree_on_transport();
  std::unique_ptr<Streams> streams = make();
  note(LogLevel::kInfo, std::string("processes move data by ") + streams->name());
  world_.fabric().attach(std::make_unique<StreamLink>(world_.fabric(), services_.clock, others(),
                                                      std::move(streams), world_.options().hooks));
}

void LinkMaker::note(LogLevel level, const std::string& text) {
  if (world_.options().log == nullptr) return;
  world_.options().log->write(level, static_cast<int32_t>(world_.options().first_rank), "comm",
                              text);
}

}  // namespace

void attach_link(World& world, const LinkServices& services) {
  if (world.peers().size() > 1) LinkMaker(world, services).attach();
}

}  // namespace plait
