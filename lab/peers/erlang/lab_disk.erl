%% Disk work of the Erlang peer: writers that sync for ever, opens that hang, the state of an
%% unrelated file, and a log that syncs each record. See ../README.md.
-module(lab_disk).
-export([new/0, address/1, start/1, work/1, stats/1, log/2]).

-include_lib("kernel/include/file.hrl").

-define(SYNCS, 1).
-define(SYNC_US, 2).
-define(FAILED, 3).
-define(HANGING, 4).
-define(RECORD_MAX, 1048576).
-define(LOG_FILE_MAX, (256 bsl 20)).
%% What appending needs of the log server's protocol: a frame is its length in four bytes, then so
%% many bytes, all integers least byte first.
-define(HELLO, <<9:32/little, 1, "EKTL", 1:16/little, 1:16/little>>).

%% What was asked for.
new() ->
    #{fsync => undefined, bytes => 4096, writers => 1, hang => undefined, opens => 1,
      stat => undefined, log => undefined, log_path => undefined}.

address(#{log := Address}) -> Address.

start(#{stat := Stat, log_path := LogPath} = Options) ->
    %% A file that is there wherever this runs: the module itself.
    Path = case Stat of
        undefined -> code:which(?MODULE);
        _ -> Stat
    end,
    Log = case LogPath of
        undefined -> undefined;
        _ -> start_log(LogPath)
    end,
    Options#{stat := Path, log := Log, counts => counters:new(4, [])}.

start_log(Path) ->
    Self = self(),
    Log = spawn_link(fun() ->
        case file:open(Path, [write, raw, binary]) of
            {ok, File} ->
                Self ! {log, self()},
                append_each(File, 0, 0);
            {error, Why} ->
                Self ! {error, self(), Why}
        end
    end),
    receive
        {log, Log} -> Log;
        {error, Log, Why} -> throw({usage, ["--log-path ", Path, ": ", file:format_error(Why)]})
    end.

work(#{fsync := Fsync, writers := Writers, hang := Hang, opens := Opens} = Disk) ->
    Fsync =:= undefined orelse
        [spawn(fun() -> writer(Fsync ++ "." ++ integer_to_list(N), Disk) end)
         || N <- lists:seq(0, Writers - 1)],
    Hang =:= undefined orelse
        [spawn(fun() -> hang(Disk) end) || _ <- lists:seq(1, Opens)],
    ok.

%% Writes the same bytes at the same place, and syncs them, until that fails.
writer(Path, #{bytes := Bytes, counts := Counts}) ->
    {ok, File} = file:open(Path, [write, raw, binary]),
    Result = write(File, binary:copy(<<"x">>, Bytes), Counts),
    counters:add(Counts, ?FAILED, 1),
    io:format(standard_error, "lab_peer: fsync: ~ts ends: ~p~n", [Path, Result]).

write(File, Bytes, Counts) ->
    case file:pwrite(File, 0, Bytes) of
        ok ->
            Begun = erlang:monotonic_time(microsecond),
            case file:sync(File) of
                ok ->
                    Took = erlang:monotonic_time(microsecond) - Begun,
                    counters:add(Counts, ?SYNC_US, Took),
                    counters:add(Counts, ?SYNCS, 1),
                    write(File, Bytes, Counts);
                Error ->
                    Error
            end;
        Error ->
            Error
    end.

hang(#{hang := Path, counts := Counts}) ->
    counters:add(Counts, ?HANGING, 1),
    case file:open(Path, [read, raw, binary]) of
        {ok, File} -> file:close(File);
        {error, _} -> ok
    end,
    counters:sub(Counts, ?HANGING, 1).

stats(#{stat := Path, counts := Counts}) ->
    Begun = erlang:monotonic_time(microsecond),
    case file:read_file_info(Path, [raw]) of
        {ok, Info} ->
            Took = erlang:monotonic_time(microsecond) - Begun,
            {ok, [{took_us, Took},
                  {length, Info#file_info.size},
                  {syncs, counters:get(Counts, ?SYNCS)},
                  {sync_us, counters:get(Counts, ?SYNC_US)},
                  {failed, counters:get(Counts, ?FAILED)},
                  {hanging, counters:get(Counts, ?HANGING)}]};
        {error, Why} ->
            {error, file:format_error(Why)}
    end.

%%% --- The log -----------------------------------------------------------------------------------

log(Socket, #{log := Log}) ->
    case gen_tcp:recv(Socket, byte_size(?HELLO)) of
        {ok, ?HELLO} ->
            Welcome = <<27:32/little, 16#81, 1:16/little, ?RECORD_MAX:32/little, 1:32/little,
                        0:64, 0:64>>,
            ok_or_gone(gen_tcp:send(Socket, Welcome)),
            appends(Socket, Log);
        _ ->
            ok
    end.

appends(Socket, Log) ->
    case gen_tcp:recv(Socket, 13) of
        {ok, <<Length:32/little, 2, Id:8/binary>>} when Length >= 9, Length =< ?RECORD_MAX + 9 ->
            Record = record(Socket, Length - 9),
            Ref = make_ref(),
            Log ! {append, self(), Ref, Record},
            receive
                {Ref, Sequence} ->
                    Appended = <<17:32/little, 16#82, Id/binary, Sequence:64/little>>,
                    ok_or_gone(gen_tcp:send(Socket, Appended)),
                    appends(Socket, Log)
            end;
        _ ->
            ok
    end.

record(_, 0) -> <<>>;
record(Socket, Length) ->
    case gen_tcp:recv(Socket, Length) of
        {ok, Record} -> Record;
        {error, _} -> throw(gone)
    end.

%% One process owns the file: each record is synced before it is acknowledged.
append_each(File, At, Records) ->
    receive
        {append, From, Ref, Record} ->
            ok = file:pwrite(File, At, Record),
            ok = file:datasync(File),
            From ! {Ref, Records},
            append_each(File, (At + byte_size(Record)) rem ?LOG_FILE_MAX, Records + 1)
    end.

ok_or_gone(ok) -> ok;
ok_or_gone({error, _}) -> throw(gone).
