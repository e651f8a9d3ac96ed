"""naive, to be replaced"""
import numpy as np
from dse.simulator.case.program import SCHEDULERS
from dse.simulator.engine import layout as of
from dse.simulator.engine.columns import Columns
from dse.simulator.engine.layout import Inputs, TOP

def make_inputs(cases, ticks, record=False, steady=True):
    columns=Columns.of(cases)
    exps=columns.exponents() if ticks else np.zeros(len(cases),int)
    resident=np.array([c.warps*c.slots for c in cases])
    entries=np.array([c.entries for c in cases],np.int64)
    kb=np.maximum(3,np.frexp(resident)[1])
    scale=2.0**(exps+(kb if ticks else 0))
    dtype=np.uint32 if ticks else np.float64
    n=len(columns.subsystem)
    slots,window=columns.slots
    slots=slots+1
    words=np.zeros((n+1,4),np.uint32)
    words[:n,0]=columns.subsystem|np.where(columns.last,8,0)|np.where(columns.barrier,16,0)|(slots<<16)
    owners=columns.owners
    need=slots[columns.pred+columns.starts[owners]]; rank=columns.ranks()
    for k in range(4):
        m=rank==k
        words[owners[m],1+k//2]|=(need[m]<<(16*(k%2))).astype(np.uint32)
    further=[0]
    for i in np.unique(owners[rank==4]):
        words[i,0]|=64; words[i,3]=len(further)
        further+=need[(owners==i)&(rank>=4)].tolist()+[0]
    per=np.repeat(scale[columns.case],columns.length)
    terms=np.zeros((n+1,4),dtype)
    for k,a in enumerate((columns.throughput_cycles,columns.latency_cycles,columns.same_warp)): terms[:n,k]=(a*per).astype(dtype)
    loops=[[0]*4]; ends_loop=np.zeros(n+1,np.uint32); around=np.zeros((n+1,4),np.uint32)
    for p,first in zip(columns.programs,columns.first.tolist()):
        for loop in p.loops:   # outer first
            d=p.around(loop.first).index(loop)
            stop=first+loop.stop-1
            loops.append([first+loop.first,loop.trips,d,int(ends_loop[stop])]); ends_loop[stop]=len(loops)-1
            words[stop,0]|=32
            around[first+loop.first:first+loop.stop,d]=loop.trips
    programs=np.zeros((len(columns.first),4),np.uint32)
    programs[:,0]=columns.first; programs[:,1]=[p.entries for p in columns.programs]; programs[:,2]=columns.length
    before=np.cumsum([0,*(len(c.programs) for c in cases)])[:-1]
    assignment=np.concatenate([np.array(c.assignment)+b for c,b in zip(cases,before)]).astype(np.uint32)
    m=len(cases); cs=np.zeros((m,16),np.uint32)
    cs[:,of.CASE_ENTRIES]=entries; cs[:,of.CASE_WARPS]=[c.warps for c in cases]; cs[:,of.CASE_SLOTS]=[c.slots for c in cases]; cs[:,of.CASE_GROUPS]=[c.groups for c in cases]
    cs[:,of.CASE_ASSIGNED]=np.cumsum([0,*(len(c.assignment) for c in cases)])[:-1]; cs[:,of.CASE_PERIOD]=[len(c.assignment) for c in cases]
    cs[:,of.CASE_SCHEDULER]=[SCHEDULERS.index(c.scheduler) for c in cases]
    caps=np.zeros((m,8),np.uint32)
    for i,c in enumerate(cases): caps[i,:len(c.caps)]=[int(k) if k<c.entries else 0 for k in c.caps]
    flags=np.zeros(m,int)
    def mark(per_ins,bit):
        np.bitwise_or.at(flags,np.repeat(columns.case,columns.length)[per_ins],int(bit))
    mark(columns.pred_counts>2,of.HAS_MANY); mark(columns.same_warp>0,of.HAS_SAME_WARP); mark(columns.barrier,of.HAS_BARRIERS); mark((words[:n,0]&32)>0,of.HAS_LOOPS)
    flags|=np.where((caps>0).any(1),int(of.HAS_CAPS),0)|np.where(cs[:,of.CASE_GROUPS]>cs[:,of.CASE_SLOTS],int(of.HAS_SEQUENCE),0)|np.where(cs[:,of.CASE_PERIOD]>1,int(of.HAS_SEVERAL),0)|np.where(columns.valve>0,int(of.HAS_VALVE),0)
    cs[:,of.CASE_FLAGS]=flags; cs[:,of.CASE_MASK]=2**kb-1; cs[:,of.CASE_WINDOW]=window+1; cs[:,of.CASE_BASE]=np.cumsum(entries)-entries
    cs[:,of.CASE_SUBSYSTEMS]=[c.subsystems for c in cases]
    exact=2.0*entries*columns.largest()*2.0**columns.exponents()<2.0**53
    from dse.simulator.engine.batch import repeats
    cs[:,of.CASE_STEADY]=exact&np.array([repeats(c) for c in cases])&steady&(not record)
    clock=np.zeros((m,2),dtype)
    clock[:,0]=(columns.valve*scale).astype(dtype); clock[:,1]=(TOP-columns.largest()*scale).astype(dtype) if ticks else np.inf
    return Inputs(words,terms,np.array(further,np.uint32),np.array(loops,np.uint32),ends_loop,around,programs,assignment,cs,caps,clock), 2.0**-exps, kb
