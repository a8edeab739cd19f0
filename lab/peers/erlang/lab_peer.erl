%% The Erlang side of Evenkeel's lab: the same services as the lab's own `serve', on gen_tcp and
%% processes as an Erlang programmer would write them. See ../README.md.
%%
%%   erlc -o target/lab-peers lab/peers/erlang/lab_peer.erl
%%   erl -noshell +S 2:2 +sbwt none -pa target/lab-peers -run lab_peer main --echo 127.0.0.1:0
-module(lab_peer).
-behaviour(gen_event). % for SIGTERM alone
-export([main/0, main/1, init/1, handle_event/2, handle_call/2]).

-define(CONNECTIONS_MAX, 16384).      % per service; one descriptor each (two for the proxy)
-define(ACCEPTORS, 8).                % processes that wait in accept, per service
-define(HOGS_MAX, 100000).
-define(WORK_MAX_US, 60000000).
-define(BUFFER_MAX, 64 bsl 20).
-define(DISK_MAX, 10000).             % writers, and opens that hang
-define(ECHO_BUFFER, 16384).
-define(HTTP_LINE_MAX, 8192).
-define(HTTP_HEADERS_MAX, 64).
-define(HTTP_BODY_MAX, 1 bsl 20).
-define(HTTP_IDLE_MS, 120000).
-define(PROXY_CONNECT_MS, 5000).
-define(SEND_MS, 30000).
-define(PARSE_STEP_US, 100).
%% Credit of an {active, N} socket, see flow/3. Well above 10: only sockets that take more than
%% ten messages in a row without going passive are polled by the schedulers themselves.
-define(CREDIT, 64).
%% The longest time between two readings of the clock that still counts as computing. One turn of
%% the loop takes some 100 ns, so whatever is longer was spent off the processor.
-define(GAP_US, 20).

-define(COMMON, [binary, {packet, raw}, {nodelay, true}, {reuseaddr, true}, {backlog, 4096},
                 {send_timeout, ?SEND_MS}, {send_timeout_close, true}, {active, false}]).

%% Between two additions to the count of what hogs and burners have computed: short against
%% anything that is measured, long against what counting costs.
-define(COUNT_STEP_US, 100).
-define(BURN_RATE_MAX, 10000).
-define(BURNING_MAX, 1000).           % fresh processes under way; beyond it load is shed

-record(opts, {echo, sink, http, api, proxy, target, meter, burn,
               camera, watch, record, disk = lab_disk:new(), work = 0, api_us = 20000, buffer = 1 bsl 20, mode = 32,
               mixed, apart, post_us = 20000, fresh, fresh_hog_us = 0, waits,
               workers = 0, hogs = 0, hog_poll = 10000, exit_with_parent = false}).

%% What the parts share: the sink's counters, and what /stats said last.
-record(shared, {opts, counters, stats, busy_wait, cameras}).
-define(DELIVERIES, 1).
-define(BYTES, 2).
-define(SINK_CONNECTIONS, 3).
-define(WORK_US, 4).
-define(BURNING, 5).

%%% --- Start and end -----------------------------------------------------------------------------

%% `-run lab_peer main --echo ADDR': init takes what starts with a dash for flags of its own and
%% keeps it, so the command line is asked for there.
main() ->
    main(lists:append([["-" ++ atom_to_list(Flag) | Values]
                       || {Flag, Values} <- init:get_arguments(),
                          lists:prefix("-", atom_to_list(Flag))])).

main(Args) ->
    log_to_stderr(),
    try run(parse(Args, #opts{})) of
        ok -> ok
    catch
        throw:{usage, Text} -> fail(Text);
        Class:Reason:Stack -> fail(io_lib:format("~p ~p~n~p", [Class, Reason, Stack]))
    end.

fail(Text) ->
    io:format(standard_error, "lab_peer: ~ts~n", [Text]),
    erlang:halt(2).

run(Opts) ->
    set_workers(Opts#opts.workers),
    erlang:system_flag(scheduler_wall_time, true),
    end_on_sigterm(),
    Counters = counters:new(5, [write_concurrency]),
    Shared = #shared{opts = Opts, counters = Counters, busy_wait = busy_wait(),
                     stats = start_stats(Counters), cameras = lab_camera:new()},
    %% The listening sockets belong to this process, which therefore never ends.
    listen("echo", Opts#opts.echo, echo_options(), fun(S) -> echo(S) end),
    listen("sink", Opts#opts.sink, [{buffer, Opts#opts.buffer}], fun(S) -> sink(S, Shared) end),
    Camera = #{mode => Opts#opts.mode, work => fun() -> compute(Opts#opts.work) end,
               record => Opts#opts.record, cameras => Shared#shared.cameras,
               counters => Counters},
    listen("camera", Opts#opts.camera, [{buffer, 65536}],
           fun(S) -> lab_camera:serve(S, Camera) end),
    listen("watch", Opts#opts.watch, [], fun(S) -> lab_camera:watch(S, Camera) end),
    Disk = lab_disk:start(Opts#opts.disk),
    listen("log", lab_disk:address(Opts#opts.disk), [], fun(S) -> lab_disk:log(S, Disk) end),
    listen("http", Opts#opts.http, http_options(), fun(S) -> http(S, fun hello/1) end),
    listen("api", Opts#opts.api, http_options(), fun(S) -> http(S, api(Shared, Disk)) end),
    listen("proxy", Opts#opts.proxy, proxy_options(), fun(S) -> proxy(S, Opts#opts.target) end),
    listen("work", Opts#opts.meter, [], fun(S) -> tell_work(S, Counters) end),
    Mixed = mixed(Opts#opts.post_us),
    listen("mixed", Opts#opts.mixed, http_options(), fun(S) -> http(S, Mixed) end),
    listen("apart", Opts#opts.apart, http_options(), fun(S) -> http(S, Mixed) end),
    Fresh = lab_handlers:start(Opts#opts.fresh, erlang:monotonic_time(),
                               fun() -> compute(Opts#opts.fresh_hog_us) end),
    listen("waits", Opts#opts.waits, [], fun(S) -> lab_handlers:tell(S, Fresh) end),
    lab_disk:work(Disk),
    [spawn(fun() -> hog(Opts#opts.hog_poll, Counters) end) || _ <- lists:seq(1, Opts#opts.hogs)],
    burn(Opts#opts.burn, Counters),
    %% `ready' comes last, so that whoever reads it finds the whole scene in place, hogs included.
    io:format("ready~n"),
    case Opts#opts.exit_with_parent of
        true -> wait_for_eof();
        false -> receive never -> ok end
    end.

wait_for_eof() ->
    case io:get_chars('', 4096) of
        eof -> erlang:halt(0);
        {error, _} -> erlang:halt(0);
        _ -> wait_for_eof()
    end.

%% OTP's own handler stops every application in turn; there is nothing here to save.
end_on_sigterm() ->
    ok = os:set_signal(sigterm, handle),
    ok = gen_event:swap_handler(erl_signal_server, {erl_signal_handler, []}, {?MODULE, []}).

init(_) -> {ok, []}.

handle_event(sigterm, _) -> erlang:halt(0);
handle_event(_, State) -> {ok, State}.

handle_call(_, State) -> {ok, ok, State}.

log_to_stderr() ->
    _ = logger:remove_handler(default),
    _ = logger:add_handler(default, logger_std_h, #{level => error,
                                                    config => #{type => standard_error}}),
    ok.

set_workers(0) -> ok;
set_workers(N) ->
    case erlang:system_info(schedulers) of
        Most when N =< Most ->
            erlang:system_flag(schedulers_online, N),
            ok;
        Most ->
            throw({usage, io_lib:format("--workers ~b: erl was started with ~b schedulers; "
                                        "start it with +S ~b:~b", [N, Most, N, N])})
    end.

%% The level is known to the command line alone: no call of the runtime tells it.
busy_wait() ->
    case file:open("/proc/self/cmdline", [read, raw, binary]) of
        {ok, File} ->
            Words = case file:read(File, 65536) of
                {ok, Text} -> binary:split(Text, <<0>>, [global]);
                _ -> []
            end,
            _ = file:close(File),
            sbwt(Words, <<"medium, the default">>);
        {error, _} ->
            <<"unknown">>
    end.

sbwt([Flag, Level | Rest], _) when Flag =:= <<"-sbwt">>; Flag =:= <<"+sbwt">> -> sbwt(Rest, Level);
sbwt([_ | Rest], Found) -> sbwt(Rest, Found);
sbwt([], Found) -> Found.

%%% --- Command line ------------------------------------------------------------------------------

parse(["--echo", Addr | Rest], O) -> parse(Rest, O#opts{echo = address("echo", Addr)});
parse(["--sink", Addr | Rest], O) -> parse(Rest, O#opts{sink = address("sink", Addr)});
parse(["--camera", Addr | Rest], O) -> parse(Rest, O#opts{camera = address("camera", Addr)});
parse(["--watch", Addr | Rest], O) -> parse(Rest, O#opts{watch = address("watch", Addr)});
parse(["--record", Directory | Rest], O) ->
    case filelib:ensure_path(Directory) of
        ok -> parse(Rest, O#opts{record = Directory});
        {error, Why} -> throw({usage, ["--record ", Directory, ": ", file:format_error(Why)]})
    end;
parse(["--fsync", Path | Rest], O) -> parse(Rest, disk(fsync, Path, O));
parse(["--fsync-bytes", N | Rest], O) ->
    parse(Rest, disk(bytes, number("fsync-bytes", N, 1, ?BUFFER_MAX), O));
parse(["--fsync-writers", N | Rest], O) ->
    parse(Rest, disk(writers, number("fsync-writers", N, 1, ?DISK_MAX), O));
parse(["--hang", Path | Rest], O) -> parse(Rest, disk(hang, Path, O));
parse(["--hang-opens", N | Rest], O) ->
    parse(Rest, disk(opens, number("hang-opens", N, 1, ?DISK_MAX), O));
parse(["--stat", Path | Rest], O) -> parse(Rest, disk(stat, Path, O));
parse(["--log", Addr | Rest], O) -> parse(Rest, disk(log, address("log", Addr), O));
parse(["--log-path", Path | Rest], O) -> parse(Rest, disk(log_path, Path, O));
parse(["--http", Addr | Rest], O) -> parse(Rest, O#opts{http = address("http", Addr)});
parse(["--api", Addr | Rest], O) -> parse(Rest, O#opts{api = address("api", Addr)});
parse(["--proxy", Pair | Rest], O) ->
    case string:split(Pair, "=") of
        [Listen, Target] ->
            parse(Rest, O#opts{proxy = address("proxy", Listen),
                               target = address("proxy", Target)});
        _ ->
            throw({usage, ["--proxy ", Pair, ": give LISTEN=TARGET, both HOST:PORT"]})
    end;
parse(["--work-us", N | Rest], O) ->
    parse(Rest, O#opts{work = number("work-us", N, 0, ?WORK_MAX_US)});
parse(["--api-us", N | Rest], O) ->
    parse(Rest, O#opts{api_us = number("api-us", N, 0, ?WORK_MAX_US)});
parse(["--buffer", N | Rest], O) ->
    parse(Rest, O#opts{buffer = number("buffer", N, 1, ?BUFFER_MAX)});
parse(["--mode", "once" | Rest], O) -> parse(Rest, O#opts{mode = once});
parse(["--mode", "true" | Rest], O) -> parse(Rest, O#opts{mode = true});
parse(["--mode", "defer:" ++ Ms | Rest], O) ->
    parse(Rest, O#opts{mode = {defer, number("mode", Ms, 0, 60000)}});
parse(["--mode", N | Rest], O) -> parse(Rest, O#opts{mode = number("mode", N, 1, 32767)});
parse(["--workers", N | Rest], O) -> parse(Rest, O#opts{workers = number("workers", N, 0, 1024)});
parse(["--hogs", N | Rest], O) -> parse(Rest, O#opts{hogs = number("hogs", N, 0, ?HOGS_MAX)});
parse(["--hog-poll-us", "never" | Rest], O) -> parse(Rest, O#opts{hog_poll = never});
parse(["--hog-poll-us", N | Rest], O) ->
    parse(Rest, O#opts{hog_poll = number("hog-poll-us", N, 1, ?WORK_MAX_US)});
parse(["--burn", Text | Rest], O) ->
    case string:split(Text, ":") of
        [Rate, Us] ->
            parse(Rest, O#opts{burn = {number("burn", Rate, 1, ?BURN_RATE_MAX),
                                       number("burn", Us, 1, ?WORK_MAX_US)}});
        _ ->
            throw({usage, ["--burn ", Text, ": give RATE:US, as in 50:20000"]})
    end;
parse(["--mixed", Addr | Rest], O) -> parse(Rest, O#opts{mixed = address("mixed", Addr)});
parse(["--apart", Addr | Rest], O) -> parse(Rest, O#opts{apart = address("apart", Addr)});
parse(["--post-us", N | Rest], O) ->
    parse(Rest, O#opts{post_us = number("post-us", N, 0, ?WORK_MAX_US)});
parse(["--fresh", N | Rest], O) ->
    parse(Rest, O#opts{fresh = number("fresh", N, 1, ?BURN_RATE_MAX)});
parse(["--fresh-hog-us", N | Rest], O) ->
    parse(Rest, O#opts{fresh_hog_us = number("fresh-hog-us", N, 0, ?WORK_MAX_US)});
%% No process is told by where it was spawned.
parse(["--fresh-apart" | Rest], O) -> parse(Rest, O);
parse(["--waits", Addr | Rest], O) -> parse(Rest, O#opts{waits = address("waits", Addr)});
parse(["--work", Addr | Rest], O) -> parse(Rest, O#opts{meter = address("work", Addr)});
parse(["--busy-wait", Level | Rest], O) ->
    io:format(standard_error, "lab_peer: warning: --busy-wait ~ts is ignored: it is set where "
              "the runtime starts, as erl +sbwt ~ts~n", [Level, Level]),
    parse(Rest, O);
parse(["--exit-with-parent" | Rest], O) -> parse(Rest, O#opts{exit_with_parent = true});
parse([What | _], _) -> throw({usage, ["what is ", What, "? See lab/peers/README.md"]});
parse([], #opts{disk = #{log := Log, log_path := Path}})
  when (Log =:= undefined) =/= (Path =:= undefined) ->
    throw({usage, "--log and --log-path go together"});
parse([], #opts{fresh = Fresh, waits = Waits})
  when (Fresh =:= undefined) =/= (Waits =:= undefined) ->
    throw({usage, "--fresh and --waits go together"});
parse([], #opts{echo = undefined, sink = undefined, http = undefined, api = undefined,
                proxy = undefined, camera = undefined, mixed = undefined, apart = undefined,
                waits = undefined, disk = #{log := undefined}}) ->
    throw({usage, "nothing to serve: give --echo, --sink, --camera, --log, --http, --api, "
                  "--proxy, --mixed, --apart or --waits"});
parse([], Opts) -> Opts.

disk(Key, Value, #opts{disk = Disk} = O) -> O#opts{disk = Disk#{Key := Value}}.

number(Name, Text, Least, Most) ->
    try list_to_integer(Text) of
        N when N >= Least, N =< Most -> N;
        _ -> throw({usage, io_lib:format("--~s ~s: must be ~b to ~b", [Name, Text, Least, Most])})
    catch
        error:badarg -> throw({usage, ["--", Name, " ", Text, ": not a number"]})
    end.

%% HOST:PORT, [IPV6]:PORT
address(Name, Text) ->
    Bad = {usage, ["--", Name, " ", Text, ": give HOST:PORT"]},
    case string:split(Text, ":", trailing) of
        [Host, PortText] ->
            Port = number(Name, PortText, 0, 65535),
            case inet:getaddr(string:trim(Host, both, "[]"), family(Host)) of
                {ok, Ip} -> {Ip, Port};
                {error, _} -> throw(Bad)
            end;
        _ ->
            throw(Bad)
    end.

family("[" ++ _) -> inet6;
family(_) -> inet.

family_of(Ip) when tuple_size(Ip) =:= 8 -> inet6;
family_of(_) -> inet.

%%% --- Listening ---------------------------------------------------------------------------------

listen(_, undefined, _, _) -> ok;
listen(Name, {Ip, Port}, Options, Serve) ->
    case gen_tcp:listen(Port, [family_of(Ip), {ip, Ip} | ?COMMON ++ Options]) of
        {ok, Socket} ->
            {ok, {_, Bound}} = inet:sockname(Socket),
            io:format("~s ~s~n", [Name, host_port(Ip, Bound)]),
            Open = counters:new(1, []),
            [spawn_acceptor(Socket, Open, Serve) || _ <- lists:seq(1, ?ACCEPTORS)],
            ok;
        {error, Why} ->
            throw({usage, io_lib:format("--~s cannot listen on ~s: ~s",
                                        [Name, host_port(Ip, Port), inet:format_error(Why)])})
    end.

host_port(Ip, Port) when tuple_size(Ip) =:= 8 -> io_lib:format("[~s]:~b", [inet:ntoa(Ip), Port]);
host_port(Ip, Port) -> io_lib:format("~s:~b", [inet:ntoa(Ip), Port]).

%% Whoever accepts a connection serves it, and another takes its place: the socket never changes
%% owner, which would cost more than the process does.
spawn_acceptor(Socket, Open, Serve) ->
    spawn(fun() -> accept(Socket, Open, Serve) end).

accept(Socket, Open, Serve) ->
    case gen_tcp:accept(Socket) of
        {ok, Connection} ->
            spawn_acceptor(Socket, Open, Serve),
            counters:add(Open, 1, 1),
            try
                case counters:get(Open, 1) > ?CONNECTIONS_MAX of
                    true -> too_many;
                    false -> Serve(Connection)
                end
            catch
                %% A peer that went away in the middle of something is no news here.
                throw:gone -> ok
            after
                counters:sub(Open, 1, 1),
                gen_tcp:close(Connection)
            end;
        {error, closed} ->
            ok;
        {error, _} ->
            %% Out of descriptors, or a client gone before it was accepted: others still want in.
            timer:sleep(10),
            accept(Socket, Open, Serve)
    end.

%%% --- Streams -----------------------------------------------------------------------------------

%% Gives each message of an active socket to Handle until the peer is done. Active because a
%% socket that is never passive costs one recv per message and no epoll_ctl; with a credit because
%% `true' alone would let a fast peer fill the mailbox. The credit is renewed while half of it is
%% left, so that it runs out, and the socket goes passive, only when this process lags behind.
flow(Socket, Handle) ->
    ok_or_gone(inet:setopts(Socket, [{active, ?CREDIT}])),
    flow(Socket, Handle, ?CREDIT div 2).

flow(Socket, Handle, 0) ->
    case inet:setopts(Socket, [{active, ?CREDIT div 2}]) of
        ok -> flow(Socket, Handle, ?CREDIT div 2);
        %% Closed already: what it brought before is still in the mailbox.
        {error, _} -> flow(Socket, Handle, closed, 0)
    end;
flow(Socket, Handle, Left) ->
    flow(Socket, Handle, Left, infinity).

flow(Socket, Handle, Left, Wait) ->
    receive
        {tcp, Socket, Data} ->
            Handle(Data),
            case Left of
                closed -> flow(Socket, Handle, closed, Wait);
                _ -> flow(Socket, Handle, Left - 1)
            end;
        %% Out of credit: all it brought is handled by now, so the renewal was asked for.
        {tcp_passive, Socket} -> flow(Socket, Handle, Left, Wait);
        {tcp_closed, Socket} -> ok;
        {tcp_error, Socket, _} -> throw(gone);
        %% The other half of a proxied connection failed.
        {'EXIT', Pid, _} when is_pid(Pid) -> throw(gone)
    after Wait ->
        ok
    end.

ok_or_gone(ok) -> ok;
ok_or_gone({error, _}) -> throw(gone).

%% A client that is done sending still wants its echo: its socket stays open.
echo_options() -> [{buffer, ?ECHO_BUFFER}, {exit_on_close, false}].

echo(Socket) ->
    flow(Socket, fun(Data) -> ok_or_gone(gen_tcp:send(Socket, Data)) end).

%% Each message is one delivery.
sink(Socket, #shared{opts = #opts{mode = Mode, work = Work}, counters = Counters}) ->
    counters:add(Counters, ?SINK_CONNECTIONS, 1),
    try
        ok_or_gone(inet:setopts(Socket, [{active, first_active(Mode)}])),
        drain(Socket, Mode, Work, Counters)
    after
        counters:sub(Counters, ?SINK_CONNECTIONS, 1)
    end.

first_active({defer, _}) -> once;
first_active(Mode) -> Mode.

drain(Socket, Mode, Work, Counters) ->
    receive
        {tcp, Socket, Data} ->
            counters:add(Counters, ?DELIVERIES, 1),
            counters:add(Counters, ?BYTES, byte_size(Data)),
            compute(Work),
            rearm(Socket, Mode),
            drain(Socket, Mode, Work, Counters);
        {tcp_passive, Socket} ->
            ok_or_gone(inet:setopts(Socket, [{active, Mode}])),
            drain(Socket, Mode, Work, Counters);
        rearm ->
            ok_or_gone(inet:setopts(Socket, [{active, once}])),
            drain(Socket, Mode, Work, Counters);
        {tcp_closed, Socket} -> ok;
        {tcp_error, Socket, _} -> throw(gone)
    end.

rearm(Socket, once) -> ok_or_gone(inet:setopts(Socket, [{active, once}]));
rearm(_, {defer, Ms}) -> erlang:send_after(Ms, self(), rearm);
rearm(_, _) -> ok.

%%% --- Proxy -------------------------------------------------------------------------------------

proxy_options() ->
    %% A peer that is done sending may still want to read: its socket stays open.
    [{exit_on_close, false}, {buffer, 65536}, {high_watermark, 262144}, {low_watermark, 131072}].

%% One process for each direction, each the owner of the socket it reads: one may wait in send
%% while the other goes on. They are linked, so that a failure ends both.
proxy(Client, {Ip, Port}) ->
    Self = self(),
    %% This process counts itself out when it ends, so it must not be killed.
    process_flag(trap_exit, true),
    Back = spawn_link(fun() -> proxy_back(Self, Client, Ip, Port) end),
    receive
        {server, Back, Server} ->
            pump(Client, Server),
            Back ! {done, Self},
            receive
                {done, Back} -> ok;
                {'EXIT', Back, _} -> ok
            end;
        {'EXIT', Back, _} ->
            throw(gone)
    end.

proxy_back(Forth, Client, Ip, Port) ->
    Options = [family_of(Ip) | proxy_options() ++ connect_options()],
    case gen_tcp:connect(Ip, Port, Options, ?PROXY_CONNECT_MS) of
        {ok, Server} ->
            Forth ! {server, self(), Server},
            pump(Server, Client),
            Forth ! {done, self()},
            receive {done, Forth} -> ok end;
        {error, _} ->
            exit({shutdown, unreachable})
    end.

connect_options() -> ?COMMON -- [{backlog, 4096}, {reuseaddr, true}].

%% Moves one direction. An orderly end is passed on as one, and the other direction may go on.
pump(From, To) ->
    try
        flow(From, fun(Data) -> ok_or_gone(gen_tcp:send(To, Data)) end),
        _ = gen_tcp:shutdown(To, write),
        ok
    catch
        throw:gone -> exit({shutdown, gone})
    end.

%%% --- HTTP --------------------------------------------------------------------------------------

http_options() -> [{packet, http_bin}, {packet_size, ?HTTP_LINE_MAX}, {buffer, ?HTTP_LINE_MAX}].

%% Answers requests, one after the other, until either side wants no more. Answer takes a path and
%% gives {Status, ContentType, Body}; one of two arguments takes the method before the path.
http(Socket, Answer) ->
    case gen_tcp:recv(Socket, 0, ?HTTP_IDLE_MS) of
        {ok, {http_request, Method, Target, Version}} ->
            Headers = headers(Socket, #{keep => Version >= {1, 1}, length => 0}, 0),
            respond(Socket, Answer, Method, Target, Headers);
        {ok, {http_error, Blank}} when Blank =:= <<"\r\n">>; Blank =:= <<"\n">> ->
            http(Socket, Answer);
        {ok, _} ->
            refuse(Socket, <<"400 Bad Request">>);
        {error, _} ->
            ok
    end.

headers(_, _, ?HTTP_HEADERS_MAX) -> refused;
headers(Socket, Found, Count) ->
    case gen_tcp:recv(Socket, 0, ?HTTP_IDLE_MS) of
        {ok, {http_header, _, 'Connection', _, Value}} ->
            headers(Socket, Found#{keep := keep(Value, maps:get(keep, Found))}, Count + 1);
        {ok, {http_header, _, 'Content-Length', _, Value}} ->
            try binary_to_integer(Value) of
                N when N >= 0, N =< ?HTTP_BODY_MAX ->
                    headers(Socket, Found#{length := N}, Count + 1);
                _ -> refused
            catch
                error:badarg -> refused
            end;
        %% Bodies in chunks are not understood, so they must not be taken for a request.
        {ok, {http_header, _, 'Transfer-Encoding', _, _}} -> refused;
        {ok, {http_header, _, _, _, _}} -> headers(Socket, Found, Count + 1);
        {ok, http_eoh} -> Found;
        {ok, _} -> refused;
        {error, _} -> throw(gone)
    end.

keep(Value, Default) ->
    case string:lowercase(Value) of
        <<"close">> -> false;
        <<"keep-alive">> -> true;
        _ -> Default
    end.

respond(Socket, _, _, _, refused) ->
    refuse(Socket, <<"400 Bad Request">>);
respond(Socket, Answer, Method, Target, #{keep := Keep, length := Length}) ->
    skip_body(Socket, Length),
    {Status, Type, Body} = case {Method, Target} of
        {_, {abs_path, Path}} when is_function(Answer, 2) -> Answer(Method, Path);
        {'GET', {abs_path, Path}} -> Answer(hd(binary:split(Path, <<"?">>)));
        {'GET', _} -> not_found();
        _ -> {<<"405 Method Not Allowed">>, <<"text/plain">>, <<"only GET is known\n">>}
    end,
    send_response(Socket, Status, Type, Body, Keep),
    case Keep of
        true -> http(Socket, Answer);
        false -> ok
    end.

skip_body(_, 0) -> ok;
skip_body(Socket, Length) ->
    ok_or_gone(inet:setopts(Socket, [{packet, raw}])),
    case gen_tcp:recv(Socket, Length, ?HTTP_IDLE_MS) of
        {ok, _} -> ok_or_gone(inet:setopts(Socket, [{packet, http_bin}]));
        {error, _} -> throw(gone)
    end.

refuse(Socket, Status) ->
    send_response(Socket, Status, <<"text/plain">>, [Status, $\n], false).

send_response(Socket, Status, Type, Body, Keep) ->
    Connection = case Keep of
        true -> <<"keep-alive">>;
        false -> <<"close">>
    end,
    ok_or_gone(gen_tcp:send(Socket, [<<"HTTP/1.1 ">>, Status, <<"\r\nContent-Type: ">>, Type,
                                     <<"\r\nContent-Length: ">>,
                                     integer_to_binary(iolist_size(Body)),
                                     <<"\r\nConnection: ">>, Connection, <<"\r\n\r\n">>, Body])).

hello(<<"/">>) -> {<<"200 OK">>, <<"text/plain">>, <<"hello\n">>};
hello(_) -> not_found().

%% Answers at once, or after some computing.
mixed(PostUs) ->
    fun('GET', <<"/">>) -> {<<"200 OK">>, <<"text/plain">>, <<"at once\n">>};
       ('POST', <<"/">>) ->
            compute(PostUs),
            {<<"200 OK">>, <<"text/plain">>, <<"computed\n">>};
       (_, _) -> not_found()
    end.

not_found() -> {<<"404 Not Found">>, <<"text/plain">>, <<"not found\n">>}.

%%% --- API ---------------------------------------------------------------------------------------

api(Shared, Disk) ->
    fun(<<"/parse">>) -> json(parse_call(Shared));
       (<<"/stats">>) -> json(stats_call(Shared));
       (<<"/stat">>) ->
            case lab_disk:stats(Disk) of
                {ok, Fields} -> json(Fields);
                {error, Why} -> {<<"500 Internal Server Error">>, <<"text/plain">>, Why}
            end;
       (<<"/camera">>) -> json(lab_camera:stats(Shared#shared.cameras, Shared#shared.counters));
       (_) -> not_found()
    end.

%% The call whose time the storm must not stretch.
parse_call(#shared{opts = #opts{api_us = ApiUs}, counters = Counters}) ->
    Before = sample(Counters),
    in_steps(ApiUs),
    After = sample(Counters),
    [{took_us, after_us(Before, After)} | rates(Before, After)].

in_steps(Us) when Us =< 0 -> ok;
in_steps(Us) ->
    compute(min(Us, ?PARSE_STEP_US)),
    erlang:yield(),
    in_steps(Us - ?PARSE_STEP_US).

sample(Counters) ->
    {erlang:monotonic_time(), counters:get(Counters, ?DELIVERIES), counters:get(Counters, ?BYTES)}.

after_us({From, _, _}, {To, _, _}) -> erlang:convert_time_unit(To - From, native, microsecond).

rates({_, Deliveries0, Bytes0} = Before, {_, Deliveries, Bytes} = After) ->
    [{deliveries_per_s, quotient(Deliveries - Deliveries0, after_us(Before, After) / 1.0e6)},
     {bytes_per_delivery, quotient(Bytes - Bytes0, Deliveries - Deliveries0)}].

%% 0 where there is nothing to divide by: JSON has no NaN.
quotient(_, B) when B == 0 -> 0.0;
quotient(A, B) -> A / B.

%% A process that keeps what the last /stats saw, so that each call tells of the time since then.
start_stats(Counters) ->
    spawn_link(fun() -> stats(Counters, stats_sample(Counters)) end).

stats(Counters, Last) ->
    receive
        {stats, From, Ref} ->
            Now = stats_sample(Counters),
            From ! {Ref, Last, Now},
            stats(Counters, Now)
    end.

stats_sample(Counters) ->
    {CpuMs, _} = erlang:statistics(runtime),
    %% Ids above those of the normal schedulers belong to dirty ones, which do no work here.
    Most = erlang:system_info(schedulers_online),
    Walls = [{Active, Total} || {Id, Active, Total} <- erlang:statistics(scheduler_wall_time),
                                Id =< Most],
    {sample(Counters), CpuMs, lists:sum([A || {A, _} <- Walls]), lists:sum([T || {_, T} <- Walls])}.

stats_call(#shared{counters = Counters, stats = Stats, busy_wait = BusyWait}) ->
    Ref = make_ref(),
    Stats ! {stats, self(), Ref},
    {Last, Now} = receive {Ref, L, N} -> {L, N} end,
    {Before, Cpu0, Active0, Total0} = Last,
    {{_, Deliveries, Bytes} = After, Cpu, Active, Total} = Now,
    Workers = erlang:system_info(schedulers_online),
    WindowS = after_us(Before, After) / 1.0e6,
    CpuS = (Cpu - Cpu0) / 1.0e3,
    [{peer, <<"erlang">>},
     {version, list_to_binary("OTP " ++ erlang:system_info(otp_release))},
     {workers, Workers},
     {window_s, WindowS},
     {cpu_s, CpuS},
     {cpu_share, quotient(CpuS, WindowS * Workers)},
     {utilisation, quotient(Active - Active0, Total - Total0)},
     {busy_wait, BusyWait},
     {run_queue, lists:sum(erlang:statistics(run_queue_lengths))},
     {tasks_active, erlang:statistics(total_active_tasks)},
     {deliveries, Deliveries},
     {bytes, Bytes},
     {sink_connections, counters:get(Counters, ?SINK_CONNECTIONS)},
     {processes, erlang:system_info(process_count)} | rates(Before, After)].

json(Fields) ->
    Members = [[$", atom_to_list(Name), $", $:, json_value(Value)] || {Name, Value} <- Fields],
    {<<"200 OK">>, <<"application/json">>, [${, lists:join($,, Members), $}, $\n]}.

json_value(N) when is_integer(N) -> integer_to_binary(N);
json_value(List) when is_list(List) -> [$[, lists:join($,, [json_value(V) || V <- List]), $]];
json_value(X) when is_float(X) -> float_to_binary(X, [{decimals, 6}, compact]);
json_value(Text) when is_binary(Text) ->
    %% The only text from outside is a word of this process's own command line.
    [$", [C || <<C>> <= Text, C >= 32, C < 127, C =/= $", C =/= $\\], $"].

%%% --- Computing ---------------------------------------------------------------------------------

%% Keeps a scheduler busy until this process had Us microseconds of it. Time during which it was
%% preempted, here after some 4000 reductions, is not counted, so that the work done is the same
%% however loaded the machine is.
compute(0) -> ok;
compute(Us) ->
    Gap = erlang:convert_time_unit(?GAP_US, microsecond, native),
    compute(erlang:convert_time_unit(Us, microsecond, native), Gap, erlang:monotonic_time()).

compute(Left, _, _) when Left =< 0 -> ok;
compute(Left, Gap, Last) ->
    Now = erlang:monotonic_time(),
    case Now - Last of
        Step when Step < Gap -> compute(Left - Step, Gap, Now);
        _ -> compute(Left, Gap, Now)
    end.

%% Computes and counts as it goes: also the work of a hog that never ends is seen to grow.
compute_counted(Us, _) when Us =< 0 -> ok;
compute_counted(Us, Counters) ->
    Step = min(Us, ?COUNT_STEP_US),
    compute(Step),
    counters:add(Counters, ?WORK_US, Step),
    compute_counted(Us - Step, Counters).

hog(never, Counters) ->
    compute_counted(?WORK_MAX_US, Counters),
    hog(never, Counters);
hog(Us, Counters) ->
    compute_counted(Us, Counters),
    erlang:yield(),
    hog(Us, Counters).

%% A process of high priority, so that it is not late for the load it is to make.
burn(undefined, _) -> ok;
burn({Rate, Us}, Counters) ->
    spawn_opt(fun() -> burn(Rate, Us, Counters, erlang:monotonic_time(), 0) end,
              [{priority, high}]).

%% On a fixed schedule: one that was held up catches up.
burn(Rate, Us, Counters, Start, Begun) ->
    ElapsedUs = elapsed_us(Start),
    Due = ElapsedUs * Rate div 1000000,
    [burn_one(Us, Counters) || _ <- lists:seq(Begun + 1, Due)],
    NextUs = (max(Due, Begun) + 1) * 1000000 div Rate,
    timer:sleep(max(1, (NextUs - elapsed_us(Start) + 999) div 1000)),
    burn(Rate, Us, Counters, Start, max(Due, Begun)).

burn_one(Us, Counters) ->
    case counters:get(Counters, ?BURNING) < ?BURNING_MAX of
        true ->
            counters:add(Counters, ?BURNING, 1),
            spawn_opt(fun() ->
                compute_counted(Us, Counters),
                counters:sub(Counters, ?BURNING, 1)
            end, [{priority, normal}]);
        false -> shed
    end.

elapsed_us(Start) ->
    erlang:convert_time_unit(erlang:monotonic_time() - Start, native, microsecond).

%% One line of JSON for every connection.
tell_work(Socket, Counters) ->
    AtUs = erlang:convert_time_unit(erlang:monotonic_time() - erlang:system_info(start_time),
                                    native, microsecond),
    ok_or_gone(gen_tcp:send(Socket, io_lib:format("{\"work_us\":~b,\"at_us\":~b}~n",
                                                  [counters:get(Counters, ?WORK_US), AtUs]))).
